"""PyTorch's attention on the GPU, for gpu.sh, and the table that puts it beside vkattn.

    gpu_peers.py time FOLDER [--limit SECONDS] [--only PATTERN]   the shapes of FOLDER/shapes.txt, to FOLDER/peers.csv
    gpu_peers.py table FOLDER                                     FOLDER/vulkan.csv beside peers.csv, and shares of the copy of ceilings.csv

Times are medians by CUDA events, of replays of a CUDA graph where one can be captured: the GPU's
own time, without Python's. peers.csv has the columns that vkattn-bench --compare takes. GFLOP/s are
4 * dim flops for each visible pair, GB/s Q, K, V and output once, as in vkattn-bench.
"""
import argparse
import csv
import os
import re
import statistics
import sys
import time
import warnings


def read_shapes(folder):
    shapes = []
    with open(os.path.join(folder, "shapes.txt")) as file:
        for line in file:
            name, batch, heads, kv, queries, keys, dim, dtype, *rest = line.split()
            shapes.append((name, int(batch), int(heads), int(kv), int(queries), int(keys), int(dim), dtype, rest == ["causal"]))
    return shapes


def work(shape):
    _, batch, heads, kv, queries, keys, dim, _, causal = shape
    pairs = sum(max(0, min(keys, i + 1 + keys - queries)) for i in range(queries)) if causal else queries * keys
    return 4.0 * dim * batch * heads * pairs, 2.0 * batch * dim * 2 * (kv * keys + heads * queries)


def read_rows(folder, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def digits(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def measure(torch, function, flops):
    """Median milliseconds of a call."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    calls = 1 if flops > 2e11 else 8
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                function()
        timed, how = graph.replay, "graph"
    except RuntimeError:
        timed, how = lambda: [function() for _ in range(calls)], "calls"
    timed()
    torch.cuda.synchronize()
    times = []
    stop = time.monotonic() + 2
    while len(times) < 5 or (len(times) < 20 and time.monotonic() < stop):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        timed()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / calls)
    return statistics.median(times), how


def time_peers(folder, limit, only):
    import torch
    import torch.nn.functional as functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    # PyTorch warns of each reason why a backend does not suit. The refusal itself is printed below.
    warnings.filterwarnings("ignore")
    begin = time.monotonic()
    device = torch.cuda.get_device_name()
    version = "PyTorch " + torch.__version__.split("+")[0]
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}
    path = os.path.join(folder, "peers.csv")
    done = {(row["shape"], row["rival"]) for row in read_rows(folder, "peers.csv")}
    with open(path, "a", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")

        def write(shape, rival, ms, gflops, gbs, note):
            rows.writerow([shape, rival, f"{ms:.5f}", device, f"{gflops:.1f}" if gflops else "", f"{gbs:.1f}" if gbs else "", note])
            file.flush()
            print(f"{shape:<36} {rival:<24} {ms:10.4f} ms {gflops / 1e3:9.1f} TFLOP/s {gbs:9.0f} GB/s  {note}", flush=True)

        if not done:
            rows.writerow(["shape", "rival", "median_ms", "device", "gflops", "gbs", "note"])
        if ("copy", version) not in done:
            a = torch.empty(1 << 29, dtype=torch.float32, device="cuda").normal_()
            b = torch.empty_like(a)
            ms, how = measure(torch, lambda: b.copy_(a), 1e12)
            write("copy", version, ms, 0.0, 2 * a.numel() * 4 / ms / 1e6, how)
            del a, b
        for dtype in (torch.float16, torch.bfloat16):
            name = "matmul-" + str(dtype)[6:]
            if (name, version) not in done:
                x, y = (torch.randn(8192, 8192, device="cuda", dtype=dtype) for _ in range(2))
                ms, how = measure(torch, lambda: x @ y, 1e12)
                write(name, version, ms, 2 * 8192**3 / ms / 1e6, 0.0, how)
        for shape in read_shapes(folder):
            name, batch, heads, kv, queries, keys, dim, dtype, causal = shape
            if not re.search(only, name):
                continue
            wanted = {f"{version} {each}": backend for each, backend in backends.items() if (name, f"{version} {each}") not in done}
            if not wanted:
                continue
            if time.monotonic() - begin > limit:
                print(f"stopped after {limit} seconds; call again for the rest")
                return 75
            flops, moved = work(shape)
            kind = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
            q = torch.randn(batch, heads, queries, dim, device="cuda", dtype=kind)
            k, v = (torch.randn(batch, kv, keys, dim, device="cuda", dtype=kind) for _ in range(2))
            for rival, backend in wanted.items():
                try:
                    with sdpa_kernel(backend):
                        ms, how = measure(
                            torch, lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv), flops
                        )
                    write(name, rival, ms, flops / ms / 1e6, moved / ms / 1e6, how)
                # The shapes that each backend takes differ by version.
                except (RuntimeError, TypeError) as error:
                    print(f"{name:<36} {rival:<24} not supported: {(str(error).splitlines() or ['?'])[0][:90]}", flush=True)
    print(path)
    return 0


def table(folder):
    ours, peers = read_rows(folder, "vulkan.csv"), read_rows(folder, "peers.csv")
    copies = [float(row["gigas_per_s"]) for row in read_rows(folder, "ceilings.csv") if row["ceiling"] == "copy"]
    copies += [float(row["gbs"]) for row in peers if row["shape"] == "copy"]
    copy = max(copies, default=0.0)
    if not ours:
        print("no rows in " + os.path.join(folder, "vulkan.csv"))
        return 1
    last = ours[-1]
    print(f"{last['device']} ({last['driver']}), commit {last['commit']}; copy {copy:.0f} GB/s, read and written")
    for row in peers:
        if row["shape"].startswith("matmul"):
            print(f"{row['rival']} {row['shape']}: {float(row['gflops']) / 1e3:.0f} TFLOP/s")
    heading = f"{'shape':<36} {'kernel':<15} {'ms':>10} {'TFLOP/s':>9} {'GB/s':>8} {'of copy':>8}"
    print(f"{heading}  {'best rival':<24} {'ms':>10} {'rival/ours':>10}")
    for shape in read_shapes(folder):
        rivals = sorted((float(row["median_ms"]), row["rival"]) for row in peers if row["shape"] == shape[0])
        flops, moved = work(shape)
        newest = {row["kernel"]: float(row["median_ms"]) for row in ours if row["shape"] == shape[0]}
        for ms, kernel in sorted((ms, kernel) for kernel, ms in newest.items()):
            share = f"{moved / ms / 1e6 / copy * 100:7.1f}%" if copy else ""
            text = f"{shape[0]:<36} {kernel:<15} {ms:10.4f} {digits(flops / ms / 1e9):>9} {digits(moved / ms / 1e6):>8} {share:>8}"
            if rivals:
                text += f"  {rivals[0][1]:<24} {rivals[0][0]:10.4f} {rivals[0][0] / ms:10.2f}"
            print(text)
        if not newest and rivals:
            print(f"{shape[0]:<36} {'(none)':<15} {'':>10} {'':>9} {'':>8} {'':>8}  {rivals[0][1]:<24} {rivals[0][0]:10.4f}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["time", "table"])
    parser.add_argument("folder")
    parser.add_argument("--limit", type=float, default=540)
    parser.add_argument("--only", default=".")
    arguments = parser.parse_args()
    if arguments.what == "table":
        return table(arguments.folder)
    return time_peers(arguments.folder, arguments.limit, arguments.only)


if __name__ == "__main__":
    sys.exit(main())
