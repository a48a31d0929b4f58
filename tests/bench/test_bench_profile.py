"""How the script that profiles kernels reads what Nsight Compute writes (2025.3.1 on an H200, columns left out)."""

from __future__ import annotations

import pytest

from tests.bench import bench_profile

RAW = """==PROF== Connected to process 1
"ID","Kernel Name","dram__bytes_read.sum","gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",\
"gpu__time_duration.sum","l1tex__data_bank_conflicts_pipe_lsu.sum","launch__block_size","launch__grid_size",\
"launch__registers_per_thread","sm__throughput.avg.pct_of_peak_sustained_elapsed",\
"sm__warps_active.avg.pct_of_peak_sustained_active","smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",\
"smsp__average_warps_issue_stalled_barrier_not_issued_per_issue_active.ratio",\
"smsp__average_warps_issue_stalled_wait_per_issue_active.ratio","smsp__inst_executed.sum"
"","","byte","%","ns","","","","register/thread","%","%","inst","inst","inst","inst"
"0","workbench_select","8,427,008","10.37","16,928","164,267","1,024","64","56","20.62","49.92","3.00","2.9","1.00",\
"3,622,588"
"""
SOURCE = """"File Path","/somewhere/kernels/block.cuh"
"Function Name","workbench_select"
"Line No","Source","Address","Source","Warp Stall Sampling (All Samples)","# Samples","Instructions Executed"
"19","const int other = __shfl_up_sync(WHOLE_WARP, value, step);","-","-","13","13","56576"
"","","0x7f8c6f7a6d30","      SHFL.UP PT, R37, R47, 0x1, RZ","2","2","2048"
"","","...","...","-","-","-"
"20","}","-","-","-","-","-"
"File Path","register.cu"
"Function Name","workbench_select"
"Line No","Source","Address","Source","Warp Stall Sampling (All Samples)","# Samples","Instructions Executed"
"111","<Unable to open source file>","-","-","39","39","1"
"""


def test_counters_are_read_in_their_units() -> None:
    (found,) = bench_profile.counters(RAW)
    assert found["microseconds"] == pytest.approx(16.928)
    assert found["bytes read from DRAM"] == 8427008
    assert found["instructions"] == 3622588
    assert found["share of a warp's time"] == {"barrier": 0.75, "wait": 0.25}


def test_samples_are_placed_by_file_and_line() -> None:
    assert bench_profile.where(SOURCE) == {
        "share of samples, by file": {"register.cu": 0.75, "block.cuh": 0.25},
        "share of samples, by line": {"register.cu:111": 0.75, "block.cuh:19": 0.25},
    }
