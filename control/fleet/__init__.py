"""Several pods of one configuration behind one address: bridge -> vllm-router -> the replicas' engines.

The front runs on the operator's machine as one process (`front`), which keeps a bridge and a router running and stands
on both sides of the router (`tunnel`): before it, it tells conversations apart and stamps each request with its own
(`conversations`), since the router keeps together what has one x-session-id; behind it, it knows where each replica
serves now and which token that takes (`replicas`), since the router knows plain URLs alone.
"""
