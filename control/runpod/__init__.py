"""Pods rented from RunPod, over REST v2.

order.py gpus.py   what is asked for; short names of GPUs -> RunPod's exact ids (pure)
offers.py          catalogue -> what fits, cheapest first (pure)
wire.py            REST v2 JSON <-> our values (pure)
problems.py        an answer that is an error -> ours, by what to do next (pure)
life.py            what is known of a pod, and one more look at it (pure)
client.py          the only file that speaks HTTP to RunPod
sdk.py             the only file that uses the `runpod` library: the balance, which REST v2 has no route for
launch.py          one order -> one pod: candidates in order, and never the same pod twice
store.py           what is known, as files
provider.py        the Provider
"""
