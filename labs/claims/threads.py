"""What is said about threads in workers."""

from collections.abc import Iterator

from labs.claims.bench import Bench, inside
from labs.claims.claim import FALSE, ONLY_WHEN, TRUE, Case, Claim, Source
from labs.claims.sources import RUNTIME_ERRORS, TOO_MANY_WORKERS, issue
from labs.harness.limits import Limits

NO_LIMIT = {"OPENBLAS_NUM_THREADS": ""}  # the labs have it at 1


def omp_variable(bench: Bench) -> Iterator[Case]:
    unset = bench.inside("threads.omp_variable", Limits(cpus=2, env=NO_LIMIT))
    given = bench.inside("threads.omp_variable", Limits(cpus=2, env={**NO_LIMIT, "OMP_NUM_THREADS": "1"}))
    names = {"torch": "torch, in the main process", "NumPy": "NumPy's OpenBLAS", "OpenCV": "OpenCV from PyPI"}
    for library, name in names.items():
        fewer = given[library] == 0 and unset[library] > 0
        yield Case(name, fewer, f"threads beside the first: {unset[library]}; with OMP_NUM_THREADS=1: {given[library]}")
    late = unset["NumPy, late"]
    yield Case("NumPy's OpenBLAS, set in os.environ after the import", late == 0, f"threads beside the first: {late}")


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="opencv-env-variable",
        source=RUNTIME_ERRORS,
        says="OPENCV_OPENMP_NUM_THREADS=1 turns OpenCV's threads off.",
        verdict=FALSE,
        believe="The library does not know that name. Call cv2.setNumThreads(0) in a worker_init_fn, or set "
        "OPENCV_FOR_THREADS_NUM=1.",
        setting="1 forked worker on 2 CPUs that turns a picture; opencv-python-headless 5.0 from PyPI",
        measure=inside("threads.opencv_variable", cpus=2, env={"OPENCV_OPENMP_NUM_THREADS": "1"}),
        lab="opencv",
    ),
    Claim(
        id="opencv-env-after-import",
        source=RUNTIME_ERRORS,
        says="The variable that limits OpenCV's threads may be set after import cv2.",
        verdict=ONLY_WHEN,
        when="it is OPENCV_FOR_THREADS_NUM, and OpenCV has not yet computed anything in parallel",
        believe="OpenCV reads it when it first needs its threads, not at the import. The name in the article, "
        "OPENCV_OPENMP_NUM_THREADS, is never read. cv2.setNumThreads(0) works at any time.",
        setting="1 forked worker on 2 CPUs, cv2 imported before the fork",
        measure=inside("threads.opencv_after_import", cpus=2),
        lab="opencv",
    ),
    Claim(
        id="opencv-segfault",
        source=RUNTIME_ERRORS,
        says="OpenCV's threads inside workers lead to segmentation faults.",
        verdict=FALSE,
        believe="They cost time, not the process: with 64 of them in each worker every picture is right. "
        "A worker that does die of a segmentation fault says so by name; look for another cause.",
        setting="2 forked workers on 2 CPUs, OPENCV_FOR_THREADS_NUM=64, 16 pictures; opencv-python-headless 5.0",
        measure=inside("threads.opencv_segfault", cpus=2, env={"OPENCV_FOR_THREADS_NUM": "64"}),
        lab="opencv",
    ),
    Claim(
        id="opencv-deadlock",
        source=issue(1355, "possible deadlock in dataloader"),
        says="cv2.setNumThreads(0) is needed, or OpenCV deadlocks in forked workers.",
        verdict=FALSE,
        believe="Not with the build on PyPI: a pool that is there before the fork has no threads in the worker, which "
        "then does all by itself. Those who saw it had old releases, or builds with GNU OpenMP (pytorch#45198). Call "
        "it for the crowd of threads.",
        setting="2 forked workers on 2 CPUs, OPENCV_FOR_THREADS_NUM=64, 16 pictures; opencv-python-headless 5.0",
        measure=inside("threads.opencv_deadlock", cpus=2, env={"OPENCV_FOR_THREADS_NUM": "64"}),
        lab="opencv",
    ),
    Claim(
        id="torch-one-thread",
        source=TOO_MANY_WORKERS,
        says="A worker computes with one torch thread.",
        verdict=TRUE,
        believe="True: each worker begins with torch.set_num_threads(1). That is torch's own threads alone; NumPy's "
        "BLAS and OpenCV start as many as there are CPUs, in every worker.",
        setting="2 forked workers on 2 CPUs, a sum over 4 million numbers",
        measure=inside("threads.torch_one_thread", cpus=2, env=NO_LIMIT),
        lab="opencv",
    ),
    Claim(
        id="torch-one-thread-in-main",
        source=Source(
            'transferable-samplers#12: "Set torch num threads to 2 instead of autodetect"',
            "https://github.com/transferable-samplers/transferable-samplers/pull/12",
        ),
        says="torch.set_num_threads with a small number, in the main process, cures workers that are slow or hang.",
        verdict=ONLY_WHEN,
        when="the workers turn torch's threads on again, and hang in an OpenMP that was in use before the fork",
        believe="A worker has one torch thread anyhow. Other libraries' threads and other locks do not care; and the "
        "main process loses its own threads. Leave torch's threads in workers at one.",
        setting="1 forked worker on 2 CPUs, timeout=2",
        measure=inside("threads.one_thread_in_main", cpus=2),
    ),
    Claim(
        id="omp-num-threads",
        source=Source(
            "MMEngine documentation, set_multi_processing",
            "https://mmengine.readthedocs.io/en/latest/_modules/mmengine/utils/dl_utils/setup_env.html",
        ),
        says="OMP_NUM_THREADS=1 keeps the libraries that workers use from starting threads.",
        verdict=ONLY_WHEN,
        when="the library reads it, and it is set before the library is imported",
        believe="torch and NumPy's OpenBLAS read it, once, when they are loaded. OpenCV from PyPI does not: "
        "cv2.setNumThreads(0) or OPENCV_FOR_THREADS_NUM=1.",
        setting="a container with 2 CPUs, with the variable and without; 1 forked worker; builds from PyPI",
        measure=omp_variable,
        lab="opencv",
    ),
)
