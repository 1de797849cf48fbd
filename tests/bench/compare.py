"""Our speed against llama.cpp's on the same full-size checkpoints, in one run: `make bench PEER=DIR`.

    python compare.py TRINITYD PEER_BIN WORK [TYPE ...]

PEER_BIN holds llama-bench and llama-batched-bench ("" = only our own figures). WORK keeps the checkpoints, of the shape
that SHAPE names (nano, small), between runs. The two sides take turns, ROUNDS times; each figure is the median, the
peer's the better of its two ways (weights repacked or not). TYPE: any of make_checkpoint.py; BF16 is a safetensors
folder of ours, a GGUF file of the peer's.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SHAPE = os.environ.get("SHAPE", "nano")
THREADS = str(len(os.sched_getaffinity(0)))
PREFILL, CONTEXT, BATCHES = 512, 128, (1, 8, 16)
MAKE = Path(__file__).with_name("make_checkpoint.py")


def made(work, kind):
    """The checkpoint of a kind, made once: under another name first, so that a broken run leaves none."""
    path = work / (SHAPE if kind == "safetensors" else f"{SHAPE}-{kind}.gguf")
    if not path.exists():
        part = path.with_name("part-" + path.name)
        subprocess.run([sys.executable, MAKE, SHAPE, kind, part], check=True)
        part.rename(path)
    return path


def ours(trinityd, model):
    run = [trinityd, "bench", "--model", model, "--json", "--repeat", "1", "--prefill", str(PREFILL)]
    run += ["--decode", ",".join(map(str, BATCHES)), "--context", str(CONTEXT), "--log-level", "error"]
    rows = [json.loads(line) for line in subprocess.run(run, check=True, capture_output=True, text=True).stdout.splitlines()]
    return {(r["test"], r["size"]): r for r in rows}


def peer(folder, model, repack):
    run = [f"{folder}/llama-bench", "-m", model, "-t", THREADS, "-p", str(PREFILL), "-n", "0", "-r", "1", "-o", "json"]
    run += ["--repack", str(int(repack))]
    rows = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    speed = {("prefill", PREFILL): rows[0]["avg_ts"]}
    run = [f"{folder}/llama-batched-bench", "-m", model, "-t", THREADS, "-c", "8192", "-npp", str(CONTEXT), "-ntg", "32"]
    run += ["-npl", ",".join(map(str, BATCHES)), "--output-format", "jsonl"]
    run += [] if repack else ["--no-repack"]
    for line in subprocess.run(run, check=True, capture_output=True, text=True).stdout.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            speed["decode", row["pl"]] = row["speed_tg"]
    return speed


def compare(trinityd, folder, work, kind):
    model = made(work, "safetensors" if kind == "BF16" else kind)
    other = made(work, kind) if folder else None
    mine, theirs = [], ([], [])
    for _ in range(ROUNDS):
        mine.append(ours(trinityd, model))
        if folder:
            for way in (0, 1):
                theirs[way].append(peer(folder, other, way))
    for key in mine[0]:
        speed = median(r[key]["tokens_per_second"] for r in mine)
        share = median(r[key]["percent_of_bandwidth"] for r in mine)
        hashes = {r[key]["hash"] for r in mine}
        line = f"{kind:5} {key[0]:8} {key[1]:4} {speed:9.1f} tokens/s {share:6.1f} % of bandwidth"
        if folder and key in theirs[0][0]:
            other_speed = max(median(r[key] for r in way) for way in theirs)
            line += f"   peer {other_speed:8.1f}   ratio {speed / other_speed:6.2f}"
        print(line + ("" if len(hashes) == 1 else f"   HASHES DIFFER {hashes}"), flush=True)


if __name__ == "__main__":
    trinityd, folder, work, *kinds = sys.argv[1:]
    Path(work).mkdir(parents=True, exist_ok=True)
    for kind in kinds or ("Q4_0", "Q8_0", "Q4_K"):
        compare(trinityd, folder, Path(work), kind)
