#!/bin/sh
# Start a command only if /dev/shm is large enough. Copy it into your own image:
#
#   COPY require-shm.sh /usr/local/bin/require-shm
#   ENV SHM_NEEDED_MB=512
#   ENTRYPOINT ["require-shm"]
#   CMD ["python", "train.py"]
#
# How much a loader needs: bytes of one batch x (num_workers x prefetch_factor + 2), and what the program itself keeps
# there. A HEALTHCHECK cannot do this: it sets a status, and the command has started all the same.
set -eu

needed=${SHM_NEEDED_MB:?"set SHM_NEEDED_MB to what the loader needs, in megabytes"}
size=$(($(df -Pk /dev/shm | { read -r _; read -r _ kilobytes _; echo "$kilobytes"; }) / 1024))

if [ "$size" -lt "$needed" ]; then
    echo "require-shm: /dev/shm has $size MB and this program needs $needed MB." \
        "Start the container with --shm-size=${needed}m (compose: shm_size: ${needed}mb;" \
        "Kubernetes: an emptyDir with medium: Memory on /dev/shm)." >&2
    exit 1
fi
exec "$@"
