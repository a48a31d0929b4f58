// Rows no longer than k: every index in order, then -1; no score is read. A longer row is not this path's and stays as it
// is. Model: workbench/paths/models/plain.py, `identity`.
#include "call.cuh"

namespace workbench {

struct Shared {
  int none;
};

__device__ __forceinline__ void select(const Call& call, int number, Shared&) {
  if (!call.takes(number)) return;
  const Row row = call.row(number);
  if (row.length <= call.k) call.output(number, nullptr).whole(row.length);
}

}  // namespace workbench

WORKBENCH_SELECTOR(workbench::Shared, workbench::select)
