#!/bin/sh
# Slurm's TaskProlog. A job that asked for shards (--gres=shard:25) shares its GPU; all others are left alone.
# Count=100 shards for each GPU in gres.conf: a shard then is a hundredth of its time, which the job is sure of.
PATH=/usr/bin:/bin # Slurm may set none
[ -n "$SLURM_SHARDS_ON_NODE" ] || exit 0
echo "export LD_PRELOAD=$(/usr/local/bin/pump lib)${LD_PRELOAD:+:$LD_PRELOAD}"
echo "export ULMS_SHARE=job$SLURM_JOB_ID,request=$(awk "BEGIN { print $SLURM_SHARDS_ON_NODE / 100 }")"
echo "export ULMS_SUSPEND_SIGNAL=TSTP"
[ ! -S /run/ulms/broker.sock ] || echo "export ULMS_SHARE_DIR=/run/ulms" # ulms-broker.service
