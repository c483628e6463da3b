#!/usr/bin/env python3
"""Compares two builds of the command-line tool bit by bit, on a frozen list of problems.

    same_bits.py --before TOOL --after TOOL [--driver NAME=COMMAND_PREFIX ...] [--filter TEXT] [--every N]

A change that promises to keep every result runs this script against the tool of the commit before
the change. The list is tests/same_bits/cases.txt. Inputs are a pure function of a case's name, so
that two machines and two commits see the same bytes. Each case runs in a process of its own, and
the files that both tools wrote are compared byte by byte.

Drivers are those of scripts/test.sh: the system's lavapipe, the newer lavapipe of
build/drivers/mesa, SwiftShader of build/drivers, and `cpu`, the tool's own fallback. A driver that
is not there is named and skipped. --driver takes some of them: lavapipe, lavapipe-new, swiftshader,
cpu. --keep FOLDER keeps inputs and the outputs of --before, and takes them from there again.

Exit status: 0 the same bits, 1 different, 2 bad usage or nothing could be compared.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "same_bits" / "cases.txt"


def npy(path, dtype, shape, payload):
    """Writes an array as NumPy's format 1.0. `payload` is its bytes in C order."""
    text = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (dtype, "".join("%d, " % n for n in shape))
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + payload)


def product(shape):
    n = 1
    for extent in shape:
        n *= extent
    return n


class Inputs:
    """The operands of one case. Every number follows from the case's name."""

    def __init__(self, folder, name):
        self.folder, self.random = folder, random.Random("same bits: " + name)

    def floats(self, name, shape, half, low=-1.0, high=1.0, hide=0.0):
        draw, infinity = self.random, float("-inf")
        values = [infinity if hide and draw.random() < hide else draw.uniform(low, high) for _ in range(product(shape))]
        code, dtype = ("e", "<f2") if half else ("f", "<f4")
        return self.write(name, dtype, shape, struct.pack("<%d%s" % (len(values), code), *values))

    def integers(self, name, values, code="i", dtype="<i4"):
        return self.write(name, dtype, [len(values)], struct.pack("<%d%s" % (len(values), code), *values))

    def flags(self, name, shape):
        return self.write(name, "|b1", shape, bytes(int(self.random.random() < 0.7) for _ in range(product(shape))))

    def words(self, name, shape):
        return self.write(name, "<u4", shape, struct.pack("<%dI" % product(shape), *(self.random.getrandbits(32) | self.random.getrandbits(32) for _ in range(product(shape)))))

    def write(self, name, dtype, shape, payload):
        path = self.folder / (name + ".npy")
        npy(path, dtype, shape, payload)
        return str(path)


def parse(line):
    """NAME key=value ... word ... -> a dictionary; numbers as integers."""
    words = line.split()
    case = {"name": words[0]}
    for word in words[1:]:
        key, _, value = word.partition("=")
        case[key] = int(value) if value.lstrip("-").isdigit() else (value or True)
    return case


def prepare(case, folder):
    """Writes the inputs of a case. Returns the arguments of `vkattn run` and the outputs' names."""
    folder.mkdir(parents=True, exist_ok=True)
    inputs = Inputs(folder, case["name"])
    batch, heads, kv = case.get("batch", 1), case.get("heads", 1), case.get("kv", case.get("heads", 1))
    queries, keys, dim = case["q"], case["k"], case["d"]
    value_dim = case.get("vd", dim)
    half = case.get("type") == "f16"
    q_batch, q_tokens, k_tokens = batch, queries, keys
    arguments = []
    if "ragged" in case:  # three sequences that together fill q and k tokens
        cuts = lambda total: [0, total // 4, total // 4, total]
        arguments += ["--cu-seqlens-q", inputs.integers("cu_q", cuts(queries)), "--cu-seqlens-k", inputs.integers("cu_k", cuts(keys))]
        batch, q_batch, q_tokens, k_tokens = 3, 1, max(queries - queries // 4, queries // 4), max(keys - keys // 4, keys // 4)
    arguments += ["--q", inputs.floats("q", [q_batch, heads, queries, dim], half, -2, 2),
                  "--k", inputs.floats("k", [q_batch, kv, keys, dim], half, -2, 2),
                  "--v", inputs.floats("v", [q_batch, kv, keys, value_dim], half, -2, 2)]
    if case.get("type") == "bf16":
        arguments += ["--round-to", "bf16"]
    if "round" in case:
        arguments += ["--round-to", case["round"]]
    pairs = [batch, heads, q_tokens, k_tokens]
    if "mask" in case:
        shape = {"full": pairs, "head": [batch, 1, q_tokens, k_tokens], "keys": [batch, 1, 1, k_tokens]}[case["mask"]]
        arguments += ["--mask", inputs.flags("mask", shape)]
    if "bitmask" in case:
        columns = (k_tokens + 31) // 32
        shape = {"full": [batch, heads, q_tokens, columns], "keys": [1, 1, 1, columns]}[case["bitmask"]]
        arguments += ["--bitmask", inputs.words("bitmask", shape)]
    if "bias" in case:
        shape = {"full": pairs, "head": [1, heads, q_tokens, k_tokens], "half": pairs}[case["bias"]]
        arguments += ["--bias", inputs.floats("bias", shape, case["bias"] == "half", hide=0.2)]
    if "alibi" in case:
        arguments += ["--alibi", inputs.floats("alibi", [heads], False, 0, 0.5)]
    if "sinks" in case:
        arguments += ["--sinks", inputs.floats("sinks", [heads], False, hide=0.3)]
    if "lengths" in case:
        arguments += ["--kv-lengths", inputs.integers("lengths", [inputs.random.randrange(keys + 1) for _ in range(batch)])]
    if "documents" in case:
        draw = lambda tokens: [token * 4 // max(tokens, 1) for token in range(tokens)]
        arguments += ["--doc-ids-q", inputs.integers("doc_q", draw(queries)), "--doc-ids-k", inputs.integers("doc_k", draw(keys))]
    for key, option in (("causal", "--causal"), ("align", "--align"), ("window", "--window"), ("scale", "--scale"),
                        ("softcap", "--softcap"), ("slices", "--slices"), ("out", "--out-dtype")):
        if key in case:
            arguments += [option, str(case[key])]
    if "deterministic" in case:
        arguments += ["--deterministic"]
    outputs = ["out"] + [name for name in ("lse", "weights") if name in case]
    return arguments, outputs


def run(tool, prefix, environment, arguments, kernel, outputs, folder):
    """Runs one case; returns its exit status and a digest of every output."""
    folder.mkdir(parents=True, exist_ok=True)
    command = prefix + [str(tool), "run"] + arguments + ["--no-tuning", "--verdicts", "none", "--no-fallback"]
    command += ["--device", "cpu"] if kernel == "cpu" else ["--kernel", kernel]
    files = {name: folder / (name + ".npy") for name in outputs}
    for name, path in files.items():
        path.unlink(missing_ok=True)
        command += ["--" + name, str(path)]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    digests = {name: hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "none" for name, path in files.items()}
    return {"status": done.returncode, "digests": digests, "text": done.stdout.strip()}


def drivers():
    """NAME -> (command prefix, additions to the environment, reason why not)."""
    new, swift = ROOT / "build/drivers/mesa", ROOT / "build/drivers/swiftshader.json"
    manifest = lambda path: {"VK_DRIVER_FILES": str(path), "VK_ICD_FILENAMES": str(path)}
    system = sorted(pathlib.Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))
    return {
        "lavapipe": ([], manifest(system[0]) if system else {}, None if system else "no lvp_icd in /usr/share/vulkan/icd.d"),
        "lavapipe-new": ([str(new / "run")], manifest(new / "lavapipe.json"), None if (new / "lavapipe.json").exists() else f"{new} is not there"),
        "swiftshader": ([], manifest(swift), None if swift.exists() else f"{swift} is not there"),
        "cpu": ([], {}, None),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True, type=pathlib.Path)
    parser.add_argument("--after", required=True, type=pathlib.Path)
    parser.add_argument("--driver", action="append", choices=list(drivers()))
    parser.add_argument("--filter", default="", help="cases whose line has this text")
    parser.add_argument("--every", type=int, default=1, help="every N-th case only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    for tool in (options.before, options.after):
        if not os.access(tool, os.X_OK):
            parser.error(f"{tool} cannot be run")
    lines = [line for line in CASES.read_text().splitlines() if line and not line.startswith("#")]
    cases = [parse(line) for line in lines if options.filter in line][:: options.every]
    with tempfile.TemporaryDirectory() as scratch:
        base = options.keep or pathlib.Path(scratch)
        version = hashlib.sha256(options.before.read_bytes() + CASES.read_bytes() + pathlib.Path(__file__).read_bytes()).hexdigest()[:16]
        different = compared = refused = 0
        for driver, (prefix, additions, reason) in drivers().items():
            if options.driver and driver not in options.driver:
                continue
            if reason:
                print(f"skipped {driver}: {reason}")
                continue
            environment = {**os.environ, **additions}

            def one(case):
                kernels = ["cpu"] if driver == "cpu" else str(case.get("kernels", "staged,flash,decode")).split(",")
                if driver == "cpu" and "weights" not in case and "kernels" in case and "flash" not in case["kernels"]:
                    return []
                found = []
                inputs = base / "inputs" / case["name"]
                arguments, outputs = prepare(case, inputs)
                for kernel in kernels:
                    if kernel.startswith("flash_coopmat") and driver != "lavapipe-new":
                        continue
                    if "weights" in case and kernel not in ("staged", "cpu"):
                        continue
                    kept = base / "before" / version / f"{driver}-{kernel}-{case['name']}.txt"
                    if kept.exists():
                        before = json.loads(kept.read_text())
                    else:
                        before = run(options.before, prefix, environment, arguments, kernel, outputs, pathlib.Path(scratch) / f"b-{driver}-{kernel}-{case['name']}")
                        kept.parent.mkdir(parents=True, exist_ok=True)
                        kept.write_text(json.dumps(before))
                    after = run(options.after, prefix, environment, arguments, kernel, outputs, pathlib.Path(scratch) / f"a-{driver}-{kernel}-{case['name']}")
                    found.append((kernel, before, after))
                return [(case, *each) for each in found]

            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                for results in pool.map(one, cases):
                    for case, kernel, before, after in results:
                        label = f"{driver} {kernel} {case['name']}"
                        if before["status"] != 0 and after["status"] != 0:
                            refused += 1
                            continue
                        compared += 1
                        if before["status"] != after["status"] or before["digests"] != after["digests"]:
                            different += 1
                            names = [name for name in before["digests"] if before["digests"][name] != after["digests"][name]]
                            print(f"DIFFERENT {label}: {', '.join(names) or 'exit status'}; before {before['status']}, after {after['status']} {after['text'][-300:] if after['status'] else ''}", flush=True)
            print(f"{driver}: so far {compared} compared, {different} different, {refused} refused by both", flush=True)
    if not compared:
        print("nothing was compared", file=sys.stderr)
        return 2
    print(f"{compared} results compared, {different} different, {refused} refused by both tools")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
