// How winners reach the output, and what stands there in place of their positions.
#pragma once

#include "platform.cuh"

namespace workbench {

constexpr bool MAPS = WORKBENCH_MAPS;  // else positions are returned, and nothing else is looked at
constexpr int EMPTY = -1;
constexpr int NO_PAGE = -2;  // workbench/engines/cuda/emission.py

// What a launch returns: positions, or positions moved by the row's offset, or what stands for them in a page table,
// `(table[i >> page_bits] << page_bits) | (i & (2^page_bits - 1))`.
struct Emission {
  int* output;          // [rows, k]
  int* positions;       // likewise, as they are; none where only the output is wanted
  long long stride;     // between rows of both
  const int* tables;    // [tables, pages]; none where no page is looked up
  long long table_stride;
  int pages, page_bits;
  const int* table_of;  // [rows], the table of each; none where row r has table r
  const int* offsets;   // [rows]; none where nothing is moved
};

// The slots of one row. Winners take them as they come.
class Output {
 public:
  __device__ __forceinline__ Output(const Emission& emission, int row, int wanted, int* counter)
      : k(wanted), written(counter), to_(emission), row_(row), slots_(emission.output + row * emission.stride) {}

  int k;
  int* written;  // of shared memory: how many winners came

  // Whether there was a slot left.
  __device__ __forceinline__ bool take(int index) const {
    return place(take_slot(written), index);
  }

  // The index as the winner of this slot, whoever else came. Whether there is such a slot.
  __device__ __forceinline__ bool place(int slot, int index) const {
    if (slot < k) put(slot, index);
    return slot < k;
  }

  // A slot of the row, without a look at k.
  __device__ __forceinline__ void put(int slot, int index) const { store(slot, index, entry(index)); }
  __device__ __forceinline__ void leave_empty(int slot) const { put(slot, EMPTY); }

  // What stands in the first slot, once more.
  __device__ __forceinline__ void repeat_first(int slot) const {
    slots_[slot] = slots_[0];
    if (MAPS && to_.positions != nullptr) beside()[slot] = beside()[0];
  }

  // A row no longer than k: every index in order, then -1.
  __device__ __forceinline__ void whole(int length) const {
#pragma unroll 1
    for (int slot = threadIdx.x; slot < k; slot += blockDim.x) {
      if (slot < length) put(slot, slot);
      else leave_empty(slot);
    }
  }

  // Whether nothing is left to select: a row no longer than k, which of its blocks the one that leads writes.
  __device__ __forceinline__ bool settles(int length, bool leads) const {
    if (length > k) return false;
    if (leads) whole(length);
    return true;
  }

 private:
  // What the op returns for an index. A table has no page for what some paths leave in slots that nothing takes.
  __device__ __forceinline__ int entry(int index) const {
    if (!MAPS || index == EMPTY) return index;
    if (to_.tables == nullptr) {
      if (to_.offsets == nullptr) return index;
      return static_cast<int>(static_cast<unsigned>(index) + static_cast<unsigned>(to_.offsets[anew(row_)]));
    }
    const int row = anew(row_), table = to_.table_of == nullptr ? row : to_.table_of[row], page = index >> to_.page_bits;
    if (page < 0 || page >= to_.pages) return NO_PAGE;
    const unsigned first = static_cast<unsigned>(to_.tables[table * to_.table_stride + page]) << to_.page_bits;
    return static_cast<int>(first | (index & ((1u << to_.page_bits) - 1u)));
  }

  __device__ __forceinline__ void store(int slot, int index, int entry) const {
    slots_[slot] = entry;
    if (MAPS && to_.positions != nullptr) beside()[slot] = index;
  }

  __device__ __forceinline__ int* beside() const { return to_.positions + anew(row_) * to_.stride; }

  const Emission& to_;
  const int row_;
  int* const slots_;
};

}  // namespace workbench
