// What is known of a row from its selection alone, as kernels/picked.cu leaves it for kernels/screen.cu.
#pragma once

namespace workbench {

struct Picked {
  float least;  // selected score that is a number; +inf without one
  int greater;  // selected scores above it
  int bad;      // no valid selection, or one with scores that are not finite
};
static_assert(sizeof(Picked) == 4 * WORKBENCH_PICKED_INTS, "the notes differ from those that the host makes room for");

}  // namespace workbench
