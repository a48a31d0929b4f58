// Accesses to the same memory that nothing orders: by two threads, one of them a plain write, or one atomic and the other
// not. Whether they are ordered follows from barriers and fences alone, so that a race is found whatever order the threads
// ran in, as long as both did what they do.
#pragma once

namespace races {

void begin(unsigned blocks);                       // a launch of so many begins; nothing is known of any memory
void block(unsigned number, unsigned threads, const void* shared, unsigned long bytes);  // begins
void blocks_ended();                               // all of those; their memory is gone
void runs(unsigned block, unsigned thread);        // the thread that does what follows
void together(unsigned first, unsigned count);     // all threads of these blocks wait for each other
void fence();                                      // for all blocks, as __threadfence
void atomic(const void* at, unsigned bytes, const void* from);
const char* found();                               // the first race, in words; null if there is none

}  // namespace races
