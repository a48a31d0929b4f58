// Stash-and-refine radix selectors: one block a row, coarse bins, the threshold bin's indices in a fixed buffer, an
// exact cut by digits there; and the repairs of them. Models: workbench/paths/models/{buffered,rescans,sglang_repairs}.py
// and ordered.py.
#include "collect.cuh"
#include "ordered.cuh"
#include "scores.cuh"

namespace workbench {

// By the model of the variant.
enum class Model {
  stash,
  detect_rescan,
  collect_then_rescan,
  wide_rescan,
  wide_rescan_sampled,
  ordered_radix,
  cutoff_first,
  filtered_rescan,
  unique_key,
  resume_index,
  flagged,           // FlashInfer: a full buffer raises a flag, and the bin's members are searched in the row
  flagged_by_index,
};

constexpr Model MODEL = Model::WORKBENCH_MODEL;
constexpr int SLOTS = WORKBENCH_CAPACITY_MOST;
using Refined = Digits<WORKBENCH_DIGITS>;    // of the path
using Rescanned = Digits<WORKBENCH_RESCAN_DIGITS>;  // of a repair that reads the row again

constexpr int BINS = larger(COARSE_BINS, 1 << larger(Refined::most(), Rescanned::most()));

struct Shared {
  Counts<BINS> counts;
  int written, equal, taken;
  Candidates<SLOTS, WORKBENCH_RANKED_TIES> candidates;
};

using Held = Scores<WORKBENCH_ITEMS>;

// A repair searches the row by digits, all of it or the members of the threshold bin, until they are `whole` winners.
template <class Digits, class Each>
__device__ __forceinline__ void search(Search& at, bool until_whole, Shared& shared, Recorder& recorder, Each each) {
  Digits::each([&](int bits) {
    narrow<KEY_BITS>(at, bits, shared.counts, recorder, each);
    return !(until_whole && at.need == at.equal);
  });
}

// Every score of the row, for a search; and with its index, for the pass that writes.
struct EveryKey {
  const Held& scores;
  template <class Visit>
  __device__ __forceinline__ void operator()(Visit visit) const {
    scores.each([&](int, float score) { visit(ordered_key(score)); });
  }
};
struct Every {
  const Held& scores;
  template <class Visit>
  __device__ __forceinline__ void operator()(Visit visit) const {
    scores.each([&](int index, float score) { visit(index, ordered_key(score)); });
  }
};

// vLLM: exact digits of the whole row, greater keys and equal ones written in the end.
__device__ __forceinline__ void rescan(const Row& row, const Held& scores, Shared& shared, const Output& output,
                                       Recorder& recorder) {
  recorder.fell_back();
  Search at{0, 0, output.k, row.length};
  search<Rescanned>(at, false, shared, recorder, EveryKey{scores});
  emit<KEY_BITS>(at, output, &shared.equal, Every{scores});
}

// vLLM: as above, but the threshold bin is the first digit already.
__device__ __forceinline__ void wide(const Coarse& seen, const Held& scores, Shared& shared, const Output& output,
                                     Recorder& recorder) {
  recorder.fell_back();
  Search at{static_cast<unsigned>(seen.bin) << (KEY_BITS - COARSE_BITS), COARSE_BITS, seen.need, seen.population};
  search<Rescanned>(at, false, shared, recorder, EveryKey{scores});
  emit<KEY_BITS>(at, output, &shared.equal, Every{scores});
}

#ifdef WORKBENCH_SAMPLE
// vLLM: candidates from the pivot of a sample on, where as many as the buffer holds reach it. Whether that served.
__device__ __forceinline__ bool sampled(const Row& row, const Held& scores, Shared& shared, const Output& output,
                                        Recorder& recorder) {
  static_assert(WORKBENCH_SAMPLED_ROOM <= SLOTS, "the candidates of the sample are held in the buffer");
  const int target = output.k < WORKBENCH_SAMPLED_LARGE_K
                         ? (4 * output.k < WORKBENCH_SAMPLED_MOST ? 4 * output.k : WORKBENCH_SAMPLED_MOST)
                         : 2 * output.k;
  const int rank = static_cast<int>(static_cast<long long>(target) * WORKBENCH_SAMPLE / row.length);
  Search at{0, 0, rank > 1 ? rank : 1, WORKBENCH_SAMPLE};
  const auto sample = [&](auto visit) {
    for (int place = threadIdx.x; place < WORKBENCH_SAMPLE; place += THREADS) {
      visit(ordered_key(row.scores[static_cast<long long>(place) * row.length / WORKBENCH_SAMPLE]));
    }
  };
  Refined::each([&](int bits) {
    narrow<KEY_BITS>(at, bits, shared.counts, recorder, sample, 0, false);
    return true;
  });
  shared.candidates.empty();
  __syncthreads();
  scores.each([&](int index, float score) {
    if (ordered_key(score) >= at.pivot) shared.candidates.store(index, WORKBENCH_SAMPLED_ROOM);
  });
  __syncthreads();
  const int count = shared.candidates.count[0];
  if (count < output.k || count > WORKBENCH_SAMPLED_ROOM) return false;
  recorder.fell_back();
  shared.candidates.template cut<Refined>(count, output.k, shared.counts, output, recorder,
                                          [&](int index) { return ordered_key(row.scores[index]); });
  return true;
}
#endif

// vLLM: exact digits of the whole row, then winners in the order of their indices. Zeros have no sign.
__device__ __forceinline__ void in_order(const Row& row, const Held& scores, Shared& shared, const Output& output,
                                         Recorder& recorder) {
  const auto key = [](float score) { return ordered_key(plain_zero(score)); };
  Search at{0, 0, output.k, row.length};
  search<Refined>(at, false, shared, recorder,
                  [&](auto visit) { scores.each([&](int, float score) { visit(key(score)); }); });
  sweep(row, at.need, output, shared.counts.sums, [&](float score) {
    const unsigned own = key(score);
    return own > at.pivot ? WINNER : own == at.pivot ? EQUAL : LOSER;
  });
}

// SGLang: the members of a bin that fills the buffer are never buffered, but searched in the row.
__device__ __forceinline__ void search_bin(const Coarse& seen, const Held& scores, Shared& shared,
                                           const Output& output, Recorder& recorder) {
  constexpr bool BY_INDEX = MODEL == Model::unique_key;  // keys are made unique by the inverted index below them
  recorder.fell_back();
  const auto members = [&](auto visit) {
    scores.each([&](int index, float score) {
      if (bin_of(score) == seen.bin) visit(index, ordered_key(score));
    });
  };
  Search at{0, 0, seen.need, seen.population};
  Rescanned::each([&](int bits) {
    narrow<KEY_BITS>(
        at, bits, shared.counts, recorder,
        [&](auto visit) { members([&](int, unsigned key) { visit(key); }); }, BY_INDEX ? KEY_BITS : 0);
    return MODEL == Model::cutoff_first || at.need < at.equal;
  });
  scores.each([&](int index, float score) {
    if (bin_of(score) > seen.bin) output.take(index);
  });
  if constexpr (BY_INDEX) {
    if (at.need < at.equal) {
      const unsigned pivot = at.pivot;
      Search last{0, 0, at.need, at.equal};
      search<Rescanned>(last, true, shared, recorder, [&](auto visit) {
        members([&](int index, unsigned key) {
          if (key == pivot) visit(~static_cast<unsigned>(index));
        });
      });
      members([&](int index, unsigned key) {
        if (key > pivot || (key == pivot && ~static_cast<unsigned>(index) >= last.pivot)) output.take(index);
      });
      return;
    }
  }
  emit<KEY_BITS>(at, output, &shared.equal, members);
}

#ifdef WORKBENCH_RESUMES
// SGLang: members that do not fit are counted; every thread reads its lane on from the first that did not.
__device__ __forceinline__ void resume(const Coarse& seen, const Row& row, int room, const Held& scores,
                                       Shared& shared, const Output& output, Recorder& recorder) {
  static_assert(LOAD == 1 && WORKBENCH_ITEMS == 0, "a lane is every THREADS-th score of the row");
  auto& held = shared.candidates;
  recorder.fell_back();
  unsigned lane = row.length;  // where this thread reads on
  int stored = fill(seen, scores, room, shared, output, [](float score) { return bin_of(score); },
                    [&](int index) { lane = lane < static_cast<unsigned>(index) ? lane : index; });
  recorder.stored(true, stored);
  const auto key_of = [&](int index) { return ordered_key(row.scores[index]); };
  Search at{0, 0, seen.need, seen.population};
  int from = 0;
  Refined::each([&](int bits) {
    const unsigned prefix = at.pivot;
    const int above = KEY_BITS - at.searched, shift = above - bits;
    const unsigned resumed = lane;
    const auto rest = [&](auto visit) {  // what the buffer does not hold and the digits before left over
      for (unsigned index = resumed; index < static_cast<unsigned>(row.length); index += THREADS) {
        const float score = row.scores[index];
        const unsigned key = ordered_key(score);
        if (bin_of(score) == seen.bin && prefix_of(key, above) == prefix_of(prefix, above)) visit(index, key);
      }
    };
    narrow<KEY_BITS>(at, bits, shared.counts, recorder, [&](auto visit) {
      for (int slot = threadIdx.x; slot < stored; slot += THREADS) visit(key_of(held.members[from][slot]));
      rest([&](int, unsigned key) { visit(key); });
    });
    if (threadIdx.x == 0) held.count[1 - from] = shared.taken = 0;
    __syncthreads();
    const unsigned pivot = prefix_of(at.pivot, shift);
    const bool last = at.need == at.equal || shift == 0;
    lane = row.length;
    const auto sort = [&](int index, unsigned key) {
      const unsigned digits = prefix_of(key, shift);
      if (digits > pivot) {
        output.take(index);
      } else if (digits == pivot && last) {
        if (take_slot(&shared.taken) < at.need) output.take(index);
      } else if (digits == pivot) {
        const int slot = take_slot(&held.count[1 - from]);
        if (slot < room) held.members[1 - from][slot] = index;
        else if (lane == static_cast<unsigned>(row.length)) lane = index;
      }
    };
    for (int slot = threadIdx.x; slot < stored; slot += THREADS) {
      const int index = held.members[from][slot];
      sort(index, key_of(index));
    }
    __syncthreads();  // what is buffered already finds room before what is read again
    rest(sort);
    __syncthreads();
    from = 1 - from;
    stored = held.count[from] < room ? held.count[from] : room;
    return !last;
  });
}
#endif

// FlashInfer: all digits of the members of the bin, in the buffer, or in the row where they overflow it.
__device__ __forceinline__ void flagged(const Coarse& seen, const Row& row, int room, const Held& scores, Shared& shared,
                                        const Output& output, Recorder& recorder) {
  constexpr bool BY_INDEX = MODEL == Model::flagged_by_index;
  const auto bin = [](float score) { return bin_of(score); };
  const bool fits = seen.population <= room;
  recorder.stored(seen.buffered, fits ? seen.population : room);
  Search at{0, 0, seen.need, seen.population};
  const auto buffered = [&](auto visit) {
    for (int slot = threadIdx.x; slot < seen.population; slot += THREADS) {
      const int index = shared.candidates.members[0][slot];
      visit(index, ordered_key(row.scores[index]));
    }
  };
  const auto members = [&](auto visit) {
    scores.each([&](int index, float score) {
      if (bin_of(score) == seen.bin) visit(index, ordered_key(score));
    });
  };
  const auto cut = [&](auto each) {
    Rescanned::each([&](int bits) {
      narrow<KEY_BITS>(at, bits, shared.counts, recorder,
                       [&](auto visit) { each([&](int, unsigned key) { visit(key); }); });
      return true;
    });
    if (!BY_INDEX) emit<KEY_BITS>(at, output, &shared.equal, each);
  };
  if (seen.buffered && fits) {
    Output ignored = output;
    ignored.k = 0;
    fill(seen, scores, room, shared, BY_INDEX ? ignored : output, bin, [](int) {});
    cut(buffered);
  } else {
    if (!BY_INDEX) {
      scores.each([&](int index, float score) {
        const int own = bin_of(score);
        if (own > seen.bin || (own == seen.bin && !seen.buffered)) output.take(index);
      });
    }
    if (seen.buffered) {
      recorder.fell_back();
      cut(members);
    }
  }
  if constexpr (BY_INDEX) {
    if (threadIdx.x == 0) shared.written = output.k;
    sweep(row, at.need, output, shared.counts.sums, [&](float score) {
      const int own = bin_of(score);
      if (own != seen.bin) return own > seen.bin ? WINNER : LOSER;
      const unsigned key = ordered_key(score);
      return !seen.buffered || key > at.pivot ? WINNER : key == at.pivot ? EQUAL : LOSER;
    });
  }
}

__device__ __forceinline__ void select(const Call& call, int number, Shared& shared) {
  if (!call.takes(number)) return;
  const Row row = call.row(number);
  const Output output = call.output(number, &shared.written);
  if (row.length <= call.k) return output.whole(row.length);
  if (!Held::holds(row.length)) return;
  if (threadIdx.x == 0) shared.written = 0;
  Recorder recorder(call.books, number);
  const Held scores(row);
  if constexpr (MODEL == Model::ordered_radix) {
    in_order(row, scores, shared, output, recorder);
  } else {
    const auto bin = [](float score) { return bin_of(score); };
    const auto key_of = [&](int index) { return ordered_key(row.scores[index]); };
    const Coarse seen = coarse_pass(scores, call.k, shared.counts, call.books, number, recorder, bin);
    const int room = room_of(call.k);
    if constexpr (MODEL == Model::flagged || MODEL == Model::flagged_by_index) {
      flagged(seen, row, room, scores, shared, output, recorder);
      return finish(output);
    }
    const bool fits = !seen.buffered || seen.population <= room - (MODEL == Model::cutoff_first ? 1 : 0);
    if (MODEL == Model::stash || fits) {
      collect<Refined>(seen, scores, room, shared, output, recorder, bin, key_of);
    } else if constexpr (MODEL == Model::detect_rescan) {
      rescan(row, scores, shared, output, recorder);
    } else if constexpr (MODEL == Model::collect_then_rescan) {
      const int stored = fill(seen, scores, room, shared, output, bin, [](int) {});
      recorder.stored(true, stored);
      if (threadIdx.x == 0) shared.written = 0;  // all of it is written again
      rescan(row, scores, shared, output, recorder);
    } else if constexpr (MODEL == Model::wide_rescan) {
      wide(seen, scores, shared, output, recorder);
#ifdef WORKBENCH_SAMPLE
    } else if constexpr (MODEL == Model::wide_rescan_sampled) {
      if (row.length < WORKBENCH_SAMPLED_FROM || !sampled(row, scores, shared, output, recorder)) {
        wide(seen, scores, shared, output, recorder);
      }
#endif
#ifdef WORKBENCH_RESUMES
    } else if constexpr (MODEL == Model::resume_index) {
      resume(seen, row, room, scores, shared, output, recorder);
#endif
    } else if constexpr (MODEL != Model::stash) {
      search_bin(seen, scores, shared, output, recorder);
    }
    finish(output);
  }
}

}  // namespace workbench

WORKBENCH_SELECTOR(workbench::Shared, workbench::select)
