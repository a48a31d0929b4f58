// What a selector tells of its inside. A build with WORKBENCH_TELEMETRY 0 tells nothing and selects the same.
#pragma once

#include "platform.cuh"

namespace workbench {

constexpr bool TELEMETRY = WORKBENCH_TELEMETRY;

// One pass of a search by digits, as workbench/paths/selection.py names its fields.
struct Pass {
  int shift, bits, seen, need, digit, above, kept;
};

// What one block of a cluster did with its members of the threshold bin: workbench/paths/selection.py, `Share`.
struct Share {
  int population, stored, dropped;
};

// The inside of one selection, in the layout of workbench/engines/cuda/reports.py. A row that the selector did not
// work on keeps what its report held before.
struct Report {
  int threshold_bin, above, population, need;
  int buffered, stored, dropped, fallback, passes;
  Pass pass[WORKBENCH_MOST_PASSES];
#if WORKBENCH_RANKS > 0
  Share share[WORKBENCH_RANKS];
#endif
};
static_assert(sizeof(Report) == 4 * WORKBENCH_REPORT_INTS, "the report differs from the one that the host reads");

// Where the reports of a launch go; none where a pointer is null.
struct Books {
  Report* reports;   // [rows], zeroed
  int* histograms;   // [rows, bins], zeroed
  int* dropped;      // [rows, dropped_room]
  int dropped_room;
};

// Writes the report of one row. Numbers that all threads agree on are written by the first; of several blocks, by the
// one that leads.
class Recorder {
 public:
  __device__ __forceinline__ Recorder(const Books& books, int row, bool leads = true)
      : report_(TELEMETRY && books.reports != nullptr ? books.reports + row : nullptr),
        dropped_(books.dropped == nullptr ? nullptr : books.dropped + static_cast<long long>(row) * books.dropped_room),
        room_(books.dropped == nullptr ? 0 : books.dropped_room),
        leads_(leads) {}

  __device__ __forceinline__ bool leads() const { return leads_; }

  __device__ __forceinline__ void bins(int bin, int above, int population, int need) {
    if (!writes()) return;
    report_->threshold_bin = bin;
    report_->above = above;
    report_->population = population;
    report_->need = need;
  }

  __device__ __forceinline__ void stored(bool buffered, int stored) {
    if (!writes()) return;
    report_->buffered = buffered;
    report_->stored = stored;
  }

  __device__ __forceinline__ void fell_back() {
    if (writes()) raise(&report_->fallback);  // as other blocks of the row may
  }

  __device__ __forceinline__ void pass(int shift, int bits, int seen, int need, int digit, int above, int kept) {
    if (!writes()) return;
    report_->pass[report_->passes++] = {shift, bits, seen, need, digit, above, kept};
  }

#if WORKBENCH_RANKS > 0
  // The first thread of every block.
  __device__ __forceinline__ void share(int rank, int population, int stored, int dropped) {
    if (!TELEMETRY || report_ == nullptr || threadIdx.x != 0) return;
    report_->share[rank] = {population, stored, dropped};
  }
#endif

  // Any thread, for itself.
  __device__ __forceinline__ void drop(int index) {
    if (!TELEMETRY || report_ == nullptr) return;
    const int slot = take_slot(&report_->dropped);
    if (slot < room_) dropped_[slot] = index;
  }

 private:
  __device__ __forceinline__ bool writes() const { return TELEMETRY && report_ != nullptr && threadIdx.x == 0 && leads_; }

  Report* report_;
  int* dropped_;
  int room_;
  bool leads_;
};

}  // namespace workbench
