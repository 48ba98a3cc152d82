"""The one table of labs. Sessions, tests, pages and agendas are derived from it.

The order says what matters most: where there is little time, a workshop takes the first of each kind of failure.
"""

from labs.harness.lab import Control, Lab
from labs.harness.limits import Limits

LABS: dict[str, Lab] = {
    lab.name: lab
    for lab in (
        Lab(
            name="shm",
            fails="a cache shared by the workers outgrows 64 MB of /dev/shm: SIGBUS",
            findings=("bus-error",),
            samples=32,
            workers=4,
            epochs=2,
            patient=True,
            control=Control("2 GB of shared memory", limits={"shm": 2 << 30}),
            advice="keep the cache as uint8, size it by what is free in /dev/shm, and reserve it at the start",
            at_home="see df -h /dev/shm; start the container with --shm-size=2g (compose: shm_size), or need less",
            goal="tell a full /dev/shm from other bus errors, and size what workers share by what is there",
            hints=(
                "Which file grows in /dev/shm while the workers run, and how large would it get?",
                "np.memmap creates a sparse file: its size is a promise that nobody has checked. Who finds out "
                "that there is no page left, and how is it told?",
                "Keep the images as they come, as bytes; ask shutil.disk_usage how much is free; and reserve it "
                "with os.posix_fallocate, which fails with an exception and not with a signal.",
            ),
            minutes=25,
            difficulty=2,
        ),
        Lab(
            name="pickle",
            module="pickling",  # labs/pickle.py would hide Python's own pickle
            fails="a lambda among the transforms cannot be sent to a worker: no batch at all",
            findings=("unpicklable",),
            samples=48,
            workers=2,
            limits=Limits(start_method="forkserver"),
            control=Control("workers started with fork", limits={"start_method": "fork"}),
            advice="use a function of the module, or a callable class, in place of the lambda",
            at_home="the expression above names it; pickle.dumps(dataset) finds it without a loader",
            goal="find the part of a dataset that cannot be pickled, and put something in its place that can",
            hints=(
                "The exception comes before the first batch. What is done with the dataset at that moment?",
                "forkserver and spawn send the dataset to each worker as a pickle, and a pickle holds the name of "
                "a function, not its code. What is the name of a lambda?",
                "Give it a name: a function at the top of the module, or a class with __call__ where it has "
                "parameters.",
            ),
            minutes=10,
            difficulty=1,
        ),
        Lab(
            name="opencv",
            fails="each worker runs 64 OpenCV threads on 2 CPUs, and they crowd each other out",
            findings=("oversubscribed",),
            samples=96,
            workers=2,
            limits=Limits(cpus=2, env={"OPENCV_FOR_THREADS_NUM": "64"}),
            control=Control("a pool of the container's size", limits={"env": {"OPENCV_FOR_THREADS_NUM": "2"}}),
            advice="call cv2.setNumThreads(0) in each worker: the workers are the parallelism",
            at_home="OPENCV_FOR_THREADS_NUM=1 in the environment, or cv2.setNumThreads(0) in a worker_init_fn",
            goal="count the threads that workers bring with them, and leave as many as there are CPUs",
            hints=(
                "Nothing fails. Look at the number of threads of a worker, and at the number of CPUs.",
                "OpenCV keeps a pool of threads in every process, one for each CPU that it may use. The workers are "
                "parallel already.",
                "cv2.setNumThreads(0) in a worker_init_fn: so it holds in each worker, however workers are started.",
            ),
            minutes=20,
            difficulty=2,
            beside_fix=True,
        ),
        Lab(
            name="augment",
            fails="all workers draw the same random numbers, and again in every epoch",
            findings=("same-draws", "epochs-repeat"),
            samples=96,
            workers=4,
            epochs=2,
            random_content=True,
            control=Control(
                "no worker processes: one generator, never copied", constants={"NUM_WORKERS": 0}, workers=0
            ),
            advice="make the generators in each worker, from the worker's own seed",
            at_home="look for a generator that the dataset holds, and for cv2.randn and cv2.randu; torch seeds neither",
            goal="say which random generators torch seeds in a worker and which it does not, and seed the others",
            hints=(
                "Compare the draws of worker 0 with those of worker 1, and the first epoch with the second.",
                "torch seeds the global generators of random, torch and NumPy in each worker. A generator that the"
                " dataset holds is copied as it is, into every worker, in every epoch; OpenCV's own is not seeded "
                "at all.",
                "In each worker, make the generators from torch.utils.data.get_worker_info().seed: it differs by "
                "worker and by epoch.",
            ),
            minutes=20,
            difficulty=2,
        ),
        Lab(
            name="shards",
            fails="every worker reads every shard: each sample comes 4 times",
            findings=("duplicated",),
            samples=105,
            workers=4,
            epochs=2,
            control=Control("one worker", constants={"NUM_WORKERS": 1}, workers=1),
            advice="deal the shards to the workers: shards[worker.id :: worker.num_workers]",
            at_home="count the samples of one epoch: more than there are means that nobody divides them",
            goal="divide an IterableDataset among its workers",
            hints=(
                "How many samples come in one epoch, and how many are there?",
                "Each worker has a copy of the whole dataset and runs its __iter__ from the first line to the "
                "last. Nobody divides the work.",
                "In __iter__ ask get_worker_info() who you are, and read only shards[worker.id :: worker.num_workers].",
            ),
            minutes=15,
            difficulty=1,
        ),
        Lab(
            name="shm-batches",
            fails="ordinary batches do not fit in 64 MB of /dev/shm: No space left on device",
            findings=("shm-full",),
            samples=96,
            workers=2,
            patient=True,
            control=Control("2 GB of shared memory", limits={"shm": 2 << 30}),
            advice="send bytes and make floats after the journey, in batches that fit: a budget for what is in flight",
            at_home="--shm-size, or fewer bytes: batch bytes x (num_workers x prefetch_factor + 2) must fit",
            goal="compute how much shared memory a loader needs before it is started",
            hints=(
                "How many bytes has one batch, and how many batches are under way at the same time?",
                "Every batch that a worker has made and the loop has not used yet lies in /dev/shm: about "
                "num_workers x prefetch_factor of them, and two more. A pixel takes one byte in the file and four "
                "as a float.",
                "Return bytes from __getitem__ and make floats in the loop (train), and choose a batch size that "
                "fits the budget.",
            ),
            minutes=20,
            difficulty=2,
        ),
        Lab(
            name="freeze-shm",
            fails="the same batches through a collate_fn of one's own: waits for ever, in silence",
            findings=("stalled",),
            samples=96,
            workers=2,
            patient=True,
            control=Control("2 GB of shared memory", limits={"shm": 2 << 30}),
            advice="torch's own collate inside yours, a budget for what is in flight, and a timeout",
            at_home="look at stderr, and give the loader a timeout: then it says that it waits for nothing",
            goal="find out why a loader waits for ever, from its stacks and from stderr",
            hints=(
                "Nothing is raised. What stands on stderr, and where does each process stand?",
                "What a collate_fn of your own returns is moved to shared memory by the queue's feeder thread. "
                "When that fails it prints, drops the batch, and the main process waits for it for ever.",
                "Build the batch with torch.utils.data.default_collate, so that a failure is raised; send bytes "
                "and fewer of them, so that there is none; and give the loader a timeout.",
            ),
            minutes=25,
            difficulty=3,
        ),
        Lab(
            name="freeze-result",
            fails="a worker returns what cannot be pickled: waits for ever, in silence",
            findings=("stalled",),
            samples=48,
            workers=2,
            control=Control("no worker processes", constants={"NUM_WORKERS": 0}, workers=0),
            advice="return plain data, or classes that the module has a name for",
            at_home="look at stderr, and give the loader a timeout: then it says that it waits for nothing",
            goal="tell a worker that is slow from a batch that was lost on its way",
            hints=(
                "Nothing is raised. What stands on stderr?",
                "A worker's result is pickled by a thread beside it. What cannot be pickled is dropped there, "
                "after the worker has done its work, and nobody is told.",
                "Return a tuple of plain data: tensors, lists, dicts, or instances of classes that stand at the top of "
                "the module.",
            ),
            minutes=15,
            difficulty=2,
        ),
        Lab(
            name="deadlock",
            fails="a thread holds a lock at the moment of fork: every worker waits for it for ever",
            findings=("stalled",),
            samples=48,
            workers=2,
            any_start_method=True,
            control=Control("workers started with forkserver", limits={"start_method": "forkserver"}),
            advice="wait for the thread before the workers are forked, or do not fork them",
            at_home="see the lock with py-spy dump --pid WORKER; use forkserver, or fork before there are threads",
            goal="read the stack of a worker that waits for a lock, and say who holds it",
            hints=(
                "Each worker stands at the same line. Which lock is it, and who holds it?",
                "fork copies the memory of the parent, a held lock among it, and only one of its threads: the one "
                "that called fork. The thread that would release the lock does not exist in the worker.",
                "Wait for the thread before the workers are forked. Or start the workers with forkserver, which forks "
                "them from a process that has no such thread. Or start the thread when the workers are there, and keep "
                "them with persistent_workers: else each epoch forks anew.",
            ),
            minutes=20,
            difficulty=3,
        ),
        Lab(
            name="fds",
            fails="a loop that keeps a part of every batch: Too many open files",
            findings=("no-files",),
            given={"BATCH_SIZE": 1},
            samples=300,
            workers=2,
            limits=Limits(open_files=256),
            control=Control("1024 open files", limits={"open_files": 1024}),
            advice="keep a copy (clone), not a view of the batch",
            at_home="count with ls /proc/PID/fd | wc -l while it runs, and clone what you keep",
            goal="say what a tensor that came from a worker holds on to, and keep only what you need of it",
            hints=(
                "Count the files that the main process has open, batch by batch.",
                "A tensor from a worker is an open file in /dev/shm. It is closed when the last tensor that looks "
                "into it is gone, and a view of one image looks into the whole batch.",
                "Keep images[0].clone(): the copy lies in ordinary memory.",
            ),
            minutes=15,
            difficulty=2,
        ),
        Lab(
            name="corrupt",
            fails="one image that cannot be read ends the epoch for all others",
            findings=("raised",),
            samples=47,
            workers=2,
            control=Control("no unreadable image", constants={"UNREADABLE": 0}),
            # 30 of 77. More would leave whole batches with nothing in them, which raises in most programs by accident.
            given={"UNREADABLE": 1},
            must_stop_with={"UNREADABLE": 30},
            advice="leave it out, count it and name it, and stop only when there are too many",
            at_home="read each file once before you train; half a JPEG is decoded all the same, with a grey rest",
            goal="keep one bad file from ending an epoch, without hiding it",
            hints=(
                "Which file is it, and how many samples did not come because of it?",
                "What a worker raises is raised again in the main process, and ends the loop there. A black "
                "picture in its place would train the model on a lie.",
                "Read every file once beforehand, leave out those that cannot be read, name them, and stop when "
                "there are too many.",
            ),
            minutes=15,
            difficulty=1,
        ),
        Lab(
            name="handles",
            fails="a file opened in __init__ is shared by forked workers: torn and missing records",
            findings=("lost", "wrong-content"),
            samples=500,
            workers=4,
            epochs=2,
            control=Control("one worker, for one epoch", constants={"NUM_WORKERS": 1}, workers=1, epochs=1),
            advice="open the file in each worker, and divide the records",
            at_home="open files, and anything else with a position or a session, in the worker",
            goal="say what forked workers share, and open what has a position in the worker that uses it",
            hints=(
                "Which records are missing, and which have a content that is not theirs?",
                "Forked workers inherit the open file, and with it one position in it: whatever one of them reads,"
                " the others skip.",
                "Keep the path in __init__ and open the file in __iter__, in each worker; and let each worker read"
                " its own part.",
            ),
            minutes=20,
            difficulty=2,
        ),
        Lab(
            name="sql",
            fails="a database connection on the dataset cannot be sent to a worker",
            findings=("unpicklable",),
            samples=48,
            workers=2,
            epochs=2,
            limits=Limits(start_method="forkserver"),
            control=Control("workers started with fork", limits={"start_method": "fork"}),
            advice="read what you need once, close the connection, and send plain arrays",
            at_home="open connections in the worker, or not at all",
            goal="give a dataset what it needs of a database, without a connection on it",
            hints=(
                "The exception comes before the first batch, and names what cannot be pickled.",
                "A connection is a socket or an open file, with a session that belongs to one process. It cannot "
                "be sent; and forked, it would be shared.",
                "Read the table once in __init__, into plain lists or arrays, and close the connection; open the "
                "images in __getitem__.",
            ),
            minutes=20,
            difficulty=1,
        ),
        Lab(
            name="memory",
            fails="a Python list that the workers share is copied into each of them by reading it",
            findings=("memory-grew",),
            samples=24,
            workers=4,
            worker_memory=48 << 20,
            control=Control("no worker processes", constants={"NUM_WORKERS": 0}, workers=0),
            advice="one packed array in place of a list of objects: reading it writes nothing",
            at_home=(
                "watch the Pss line of /proc/PID/smaps_rollup of the workers; pack what the dataset holds into arrays"
            ),
            goal=(
                "tell memory that workers share from memory that each has copied, and keep metadata in a form that "
                "stays shared"
            ),
            hints=(
                "How much memory has a worker of its own at the end, and how large is the list?",
                "Each Python object begins with the number of references to it. To look at an object is to change "
                "that number, and a changed page is no longer shared.",
                "Put the columns into NumPy arrays: one object with one counter, whatever its length.",
            ),
            minutes=20,
            difficulty=2,
        ),
        Lab(
            name="oom",
            fails="each worker fills a cache of its own: the container's memory limit kills one",
            findings=("oom",),
            samples=40,
            workers=2,
            epochs=3,
            limits=Limits(memory=768 << 20),
            control=Control("no memory limit", limits={"memory": None}),
            advice=(
                "read when it is needed and keep nothing: the files stay in the system's cache, once for all workers"
            ),
            at_home=(
                "look for OOMKilled in docker inspect, and add up the memory of all processes, not of the main one"
            ),
            goal="tell a kill for memory from other kills, and find out which processes the limit counts",
            hints=(
                "Which signal was it, and how much memory had each process when it came?",
                "The limit is the container's. Each worker has a copy of the dataset, and what it puts into the "
                "cache is in its copy alone: two workers, two caches, and in every epoch other photographs.",
                "Keep nothing between samples, or only a few (functools.lru_cache with a maxsize).",
            ),
            minutes=20,
            difficulty=2,
        ),
        Lab(
            name="starve",
            fails="num_workers=0: the loop waits for data more than half of the time",
            findings=("starved",),
            given={"ANSWER_SECONDS": 0.015, "STEP_SECONDS": 0.050},
            samples=160,
            workers=0,
            beside_fix=True,
            most_waiting=0.5,
            control=Control("a store that answers at once", constants={"ANSWER_SECONDS": 0}),
            advice="load in workers while the device computes: enough of them to make a batch within a step",
            at_home=(
                "time next(iterator) and the step apart; choose workers by load time / step time, within the "
                "container's CPUs"
            ),
            goal="measure how much of a training loop is waiting, and choose the number of workers by it",
            hints=(
                "How long does a step take, and how long does it take to load a batch?",
                "With num_workers=0 the batch is loaded inside next(), while the device has nothing to do. A "
                "worker would load the next batches in the meantime.",
                "num_workers=3: a worker makes a batch in 120 ms, three make one every 40, and a step takes 50.",
            ),
            minutes=15,
            difficulty=1,
        ),
        Lab(
            name="ragged",
            fails="sentences of different lengths cannot be stacked into a batch",
            findings=("raised",),
            samples=320,
            workers=2,
            batch_size=32,
            control=Control("batches of one sentence", constants={"BATCH_SIZE": 1}),
            advice="pad to the longest of the batch, with a mask, and put sentences of similar length together",
            at_home="give the loader a collate_fn that pads and masks; measure how much of a batch is padding",
            goal="write a collate_fn that pads and masks, and say how much padding it costs",
            hints=(
                "Which sizes does the message name, and who wants them to be equal?",
                "torch.stack needs rows of one length. Something has to fill the short ones, and the model has to "
                "be told what is filling.",
                "A collate_fn with torch.nn.utils.rnn.pad_sequence, and a mask that is True for words; then "
                "batches of similar length.",
            ),
            minutes=20,
            difficulty=2,
        ),
        Lab(
            name="last-batch",
            fails="one leftover image meets BatchNorm: the epoch dies on its last batch",
            findings=("raised",),
            given={"TRAINING": True},
            samples=49,
            workers=2,
            epochs=4,
            may_drop=1,
            validation={"TRAINING": False},
            control=Control("batches of 7, so that no image is left over", constants={"BATCH_SIZE": 7}),
            advice="drop_last in training, where another image is left out each time, and never in validation",
            at_home="len(dataset) % batch_size == 1 tells beforehand; drop_last=True in training only",
            goal="say what drop_last drops, and where it belongs",
            hints=(
                "How many images are in the batch that fails?",
                "In training BatchNorm divides by the variance of the batch. One sample has none. In validation it"
                " uses what it has learned, and any batch will do.",
                "drop_last=TRAINING",
            ),
            minutes=10,
            difficulty=1,
        ),
        Lab(
            name="ranks",
            fails="2 ranks with 2 workers each all read everything: each record comes 4 times",
            findings=("duplicated",),
            samples=90,
            workers=4,
            ranks=2,
            limits=Limits(env={"GLOO_SOCKET_IFNAME": "lo"}),
            control=Control("one rank with one worker", constants={"NUM_WORKERS": 1}, workers=1, ranks=1),
            advice="deal the records to all workers of all ranks, so that every rank has as many batches",
            at_home=(
                "count records over all ranks in one epoch; divide by rank and by worker, and keep the batches equal"
            ),
            goal="divide a stream among ranks and their workers, so that no collective is left without a partner",
            hints=(
                "How often does each record come, and how many workers are there in all ranks together?",
                "Every worker of every rank has the whole dataset. And when one rank has a batch more than the "
                "other, its all_reduce waits for a partner that has gone.",
                "Number the workers through: rank * num_workers + worker.id of ranks * num_workers; deal records "
                "and not shards, for nine shards do not come out even.",
            ),
            minutes=30,
            difficulty=3,
        ),
        Lab(
            name="closing",
            fails="three at once: a stream read 3 times, the same draws, and a crowd of threads",
            findings=("duplicated", "same-draws", "epochs-repeat", "oversubscribed"),
            samples=72,
            workers=3,
            epochs=2,
            random_content=True,
            limits=Limits(cpus=2, env={"OPENCV_FOR_THREADS_NUM": "64"}),
            control=Control(
                "no worker processes, and an OpenCV pool of the container's size",
                limits={"env": {"OPENCV_FOR_THREADS_NUM": "2"}},
                constants={"NUM_WORKERS": 0},
                workers=0,
            ),
            advice="in each worker: its part of the stream, a generator from its seed, and no threads beside it",
            at_home="take one finding at a time, in the order of the report; one cause may have several",
            goal="tell several failures in one program apart by their evidence, and mend them one after the other",
            hints=(
                "Four things are found, and they have three causes. Take the first, mend it, and have it judged again.",
                "A worker starts as a copy of the dataset and of the process. Of what it copies, what should be "
                "divided, what should be different in each worker and each epoch, and what is too much for one?",
                "In __iter__ ask get_worker_info(): read shards[worker.id :: worker.num_workers], and draw from a "
                "generator made from worker.seed. In a worker_init_fn call cv2.setNumThreads(0).",
            ),
            minutes=45,
            difficulty=3,
            combines=("shards", "augment", "opencv"),
        ),
    )
}
