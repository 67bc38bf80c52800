"""Ranks as processes: their output, and how all of them end. Nothing here needs Horovod."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, List

import pytest

from graph_opt.cli.horovod_launcher import rendezvous_of
from graph_opt.cli.main import main

REPOSITORY = Path(__file__).resolve().parents[2]
LAUNCHER = """
import os, sys, threading, time
from graph_opt.launch import process_group
from graph_opt.launch.rank_group import RankGroup
process_group.STOP_SECONDS = 1.0
environments = [dict(os.environ, HOROVOD_RANK=str(rank)) for rank in range(2)]
tell = lambda rank, cause: print("told:", rank, cause, flush=True)
command = [sys.executable, "-u", "-c", sys.argv[1]]
group = RankGroup(command, environments, b"given", tell, patience=1.0)

def note_end_of_rank_0():
    while not any(p.ended_at for p in group.running + group.ended if p.name == "0"):
        time.sleep(0.01)
    open("rank 0 has ended", "w").close()

threading.Thread(target=note_end_of_rank_0, daemon=True).start()
sys.exit(group.run())
"""
RANK = """
import os, signal, subprocess, sys, time
rank = int(os.environ['HOROVOD_RANK'])
def wait_for(name):
    while not os.path.exists(name): time.sleep(0.01)
"""
# Rank 1 goes on once the launcher has noticed that rank 0 has ended.
RANK_0_FIRST = """
if rank:
    open('rank 1 runs', 'w').close()
    wait_for('rank 0 has ended')
else:
    wait_for('rank 1 runs')
"""


def start(script: str, folder: Path, **pipes: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", LAUNCHER, RANK + script]
    environment = dict(os.environ, PYTHONPATH=str(REPOSITORY))
    return subprocess.Popen(
        command,
        cwd=str(folder),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **pipes,
    )


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    process = start(script, folder)
    printed, error = process.communicate(timeout=60)
    return subprocess.CompletedProcess([], process.returncode, printed, error)


def lines_of(text: str, rank: int) -> List[str]:
    prefix = "[{}] ".format(rank)
    return [line[len(prefix) :] for line in text.splitlines() if line.startswith(prefix)]


def test_lines_of_all_ranks_come_whole_and_with_their_rank(tmp_path: Path) -> None:
    done = run(
        "print(sys.stdin.read())\n"
        "for step in range(200): print(step, 'x' * 500)\n"
        "sys.stderr.write('10 %\\r20 %\\rlast')\n",
        tmp_path,
    )
    assert done.returncode == 0
    expected = ["given"] + ["{} {}".format(step, "x" * 500) for step in range(200)]
    for rank in range(2):
        assert lines_of(done.stdout, rank) == expected
        assert lines_of(done.stderr, rank) == ["10 %", "20 %", "last"]
    assert len(done.stdout.splitlines()) == 2 * len(expected)


def test_if_one_rank_fails_the_others_end_and_one_line_says_why(tmp_path: Path) -> None:
    done = run("if rank == 1: raise ValueError('no such\\nrow')\nsignal.pause()\n", tmp_path)
    assert done.returncode == 1
    assert done.stdout == "told: 1 ended with exit code 1: ValueError: no such\n"
    assert done.stderr.splitlines()[-1] == (
        "graph-opt run: rank 1 ended with exit code 1: ValueError: no such; rank 0 did not end on "
        "its own and was ended"
    )


def test_a_rank_that_ignores_being_ended_is_killed(tmp_path: Path) -> None:
    done = run(
        "if rank == 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "while True: time.sleep(1)\n",
        tmp_path,
    )
    assert done.returncode == 137
    assert "rank 0 was ended by SIGKILL" in done.stderr.splitlines()[-1]


def test_the_rank_that_is_blamed_is_not_one_that_followed_it(tmp_path: Path) -> None:
    done = run(
        RANK_0_FIRST + "if rank == 0:\n"
        "    raise RuntimeError('''Graph execution error:\n\n"
        "Detected at node 'a'\nNode: 'a'\nFrom /job:ps/replica:0/task:0:\n"
        "Horovod has been shut down. This was ...''')\n"
        "sys.exit('no input left')\n",
        tmp_path,
    )
    assert "0 ended with exit code 1: RuntimeError: Horovod has been shut down" in done.stdout
    assert done.stderr.splitlines()[-1] == (
        "graph-opt run: rank 1 ended with exit code 1: no input left"
    )


def test_a_rank_that_names_another_is_not_blamed(tmp_path: Path) -> None:
    done = run(
        RANK_0_FIRST + "sys.exit('rank 1: node: no such row' if rank == 0 else 'no such row')\n",
        tmp_path,
    )
    assert done.stderr.splitlines()[-1].startswith("graph-opt run: rank 1 ended with exit code 1")


def test_a_rank_that_has_ended_before_is_named(tmp_path: Path) -> None:
    done = run(RANK_0_FIRST + "if rank: sys.exit('Horovod has been shut down')\n", tmp_path)
    assert done.stderr.splitlines()[-1] == (
        "graph-opt run: rank 1 ended with exit code 1: Horovod has been shut down; before that, "
        "rank 0 had ended without an error"
    )


def test_a_rank_has_ended_before_even_if_what_it_started_still_writes(tmp_path: Path) -> None:
    done = run(
        RANK_0_FIRST + "if rank: sys.exit('Horovod has been shut down')\n"
        "subprocess.Popen(['sleep', '1'])\n",
        tmp_path,
    )
    assert done.stderr.splitlines()[-1].endswith("; before that, rank 0 had ended without an error")


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_reach_the_ranks(tmp_path: Path, number: int, code: int) -> None:
    process = start(
        "def told(*_): sys.exit(print('told'))\n"
        "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, told)\n"
        "print('ready')\n"
        "while True: time.sleep(1)\n",
        tmp_path,
    )
    assert process.stdout is not None
    assert sorted(process.stdout.readline() for _ in range(2)) == ["[0] ready\n", "[1] ready\n"]
    process.send_signal(number)
    printed, error = process.communicate(timeout=60)
    assert sorted(printed.splitlines()) == ["[0] told", "[1] told"]
    assert error.splitlines()[-1].startswith("graph-opt run: got SIG")
    assert process.returncode == code


def test_ranks_end_when_nobody_reads_what_they_print(tmp_path: Path) -> None:
    process = start("while True: print(rank)\n", tmp_path)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 128 + signal.SIGPIPE


def test_ranks_need_horovod_and_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "horovod", None)
    (tmp_path / "script.py").write_text("")
    assert main(["run", "-np", "2", str(tmp_path / "script.py")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("graph-opt run: -np 2 needs Horovod") and error.count("\n") == 1
    assert main(["run", "-np", "2", str(tmp_path / "none.py")]) == 2
    assert "cannot open script" in capsys.readouterr().err
    for number in ("0", "two"):
        with pytest.raises(SystemExit):
            main(["run", "-np", number, "script.py"])
        assert "is not a number of ranks, 1 or more" in capsys.readouterr().err


def test_each_rank_is_told_its_place_and_where_the_others_are() -> None:
    pytest.importorskip("horovod.runner")
    with rendezvous_of(3) as rendezvous:
        assert [one["HOROVOD_RANK"] for one in rendezvous.environments] == ["0", "1", "2"]
        assert {one["HOROVOD_SIZE"] for one in rendezvous.environments} == {"3"}
        rendezvous.store.set("key", b"value")
        assert rendezvous.store.get("key") == b"value"


def test_only_this_machine_reaches_what_ranks_leave_for_each_other() -> None:
    pytest.importorskip("horovod.runner")
    with rendezvous_of(2) as rendezvous:
        (port,) = {one["HOROVOD_GLOO_RENDEZVOUS_PORT"] for one in rendezvous.environments}
        listening = [line.split()[1] for line in Path("/proc/net/tcp").open() if " 0A " in line]
    of_port = [place for place in listening if place.endswith(":{:04X}".format(int(port)))]
    assert of_port == ["0100007F:{:04X}".format(int(port))]
