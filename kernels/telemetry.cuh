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
      : books_(books), row_(row), leads_(leads) {}

  __device__ __forceinline__ bool leads() const { return leads_; }

  __device__ __forceinline__ void bins(int bin, int above, int population, int need) {
    if (!writes()) return;
    Report& told = report();
    told.threshold_bin = bin;
    told.above = above;
    told.population = population;
    told.need = need;
  }

  __device__ __forceinline__ void stored(bool buffered, int stored) {
    if (!writes()) return;
    report().buffered = buffered;
    report().stored = stored;
  }

  __device__ __forceinline__ void fell_back() {
    if (writes()) raise(&report().fallback);  // as other blocks of the row may
  }

  __device__ __forceinline__ void pass(int shift, int bits, int seen, int need, int digit, int above, int kept) {
    if (!writes()) return;
    Report& told = report();
    told.pass[told.passes++] = {shift, bits, seen, need, digit, above, kept};
  }

#if WORKBENCH_RANKS > 0
  // The first thread of every block.
  __device__ __forceinline__ void share(int rank, int population, int stored, int dropped) {
    if (!tells() || threadIdx.x != 0) return;
    report().share[rank] = {population, stored, dropped};
  }
#endif

  // Any thread, for itself.
  __device__ __forceinline__ void drop(int index) {
    if (!tells()) return;
    const int slot = take_slot(&report().dropped);
    if (books_.dropped == nullptr || slot >= books_.dropped_room) return;
    books_.dropped[static_cast<long long>(anew(row_)) * books_.dropped_room + slot] = index;
  }

 private:
  __device__ __forceinline__ bool tells() const { return TELEMETRY && books_.reports != nullptr; }
  __device__ __forceinline__ bool writes() const { return tells() && threadIdx.x == 0 && leads_; }

  // Found anew each time: a place that is kept takes registers from the selector.
  __device__ __forceinline__ Report& report() const { return books_.reports[anew(row_)]; }

  const Books& books_;
  const int row_;
  const bool leads_;
};

}  // namespace workbench
