// What an op returned as positions within its rows: cache slots looked up in page tables, offsets taken off, and tokens
// put together to the pools that they are of. What has no one position gives NONE, which no selection holds. The rule
// stands in workbench/engines/cuda/positions.py.
#include "block.cuh"
#include "platform.cuh"
#include "seen.cuh"

namespace workbench {

constexpr int EMPTY = -1;
constexpr int NONE = -2;
constexpr int TWICE = -2;  // in place of where a page stands

struct PositionsShared {
  int pages[SLOTS];  // of the entries
  int places[SLOTS];  // in the row's table; FREE where a page does not stand there
};

// How one row's entries are turned back.
struct Turned {
  const PositionsShared& shared;
  bool mapped;
  int page_size;
  int offset;

  // The token of an entry, below 0 where there is none.
  __device__ __forceinline__ long long token(int entry) const {
    if (entry < 0) return entry;
    if (!mapped) return entry < offset ? NONE : entry - offset;
    const int slot = slot_of(shared.pages, entry / page_size), place = slot == FREE ? FREE : shared.places[slot];
    return place < 0 ? NONE : static_cast<long long>(place) * page_size + entry % page_size;
  }

  // The pool of `pool` entries, which are its tokens in their order.
  __device__ __forceinline__ int pool(const int* entries, int pool) const {
    const long long first = token(entries[0]);
    if (first < EMPTY || (first >= 0 && first % pool != 0)) return NONE;
    for (int at = 1; at < pool; ++at) {
      if (token(entries[at]) != (first < 0 ? EMPTY : first + at)) return NONE;
    }
    return static_cast<int>(first < 0 ? EMPTY : first / pool);
  }
};

}  // namespace workbench

WORKBENCH_SHARED_BYTES(workbench::PositionsShared)

// One block a row. entries: [rows, columns], which lie together, of which k pools come first. table: [tables, pages], rows
// `apart`; none where entries are positions moved by `offsets`, if by anything. owners: the table of each row, its own
// number by default. positions: [rows, k].
extern "C" __global__ void __launch_bounds__(WORKBENCH_THREADS) workbench_positions(
    const int* entries, int columns, const int* lengths, int width, const int* table, long long apart, int pages,
    int tables, const int* owners, int page_size, const int* offsets, int pool, int k, int* positions) {
  using namespace workbench;
  WORKBENCH_DYNAMIC_SHARED(memory);
  PositionsShared& shared = *reinterpret_cast<PositionsShared*>(memory);
  const int row = blockIdx.x;
  const int length = lengths[row] < 0 ? 0 : lengths[row] < width ? lengths[row] : width;
  // Behind the pools of a short row stand tokens of an open pool.
  const int held = pool == 1 || k < length ? k : length, used = held * pool;
  const int* own = entries + static_cast<long long>(row) * columns;
  if (table != nullptr) {
    for (int at = threadIdx.x; at < SLOTS; at += THREADS) shared.pages[at] = shared.places[at] = FREE;
    __syncthreads();
    for (int at = threadIdx.x; at < used; at += THREADS) {
      if (own[at] >= 0) is_new(shared.pages, own[at] / page_size);
    }
    __syncthreads();
    const int owner = owners == nullptr ? row : owners[row];
    const long long needed = (static_cast<long long>(length) * pool + page_size - 1) / page_size;
    const int count = owner < 0 || owner >= tables ? 0 : static_cast<int>(needed < pages ? needed : pages);
    for (int at = threadIdx.x; at < count; at += THREADS) {
      const int page = table[owner * apart + at];
      const int slot = page < 0 ? FREE : slot_of(shared.pages, page);
      if (slot != FREE && atomicCAS(&shared.places[slot], FREE, at) != FREE) atomicExch(&shared.places[slot], TWICE);
    }
    __syncthreads();
  }
  const Turned turned{shared, table != nullptr, page_size, offsets == nullptr ? 0 : offsets[row]};
  int* out = positions + static_cast<long long>(row) * k;
  for (int at = threadIdx.x; at < k; at += THREADS) out[at] = at < held ? turned.pool(own + at * pool, pool) : EMPTY;
}
