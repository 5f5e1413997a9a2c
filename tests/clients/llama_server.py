"""llama.cpp's HTTP server, without a GPU.

    python llama_server.py MODEL.gguf PORT SECONDS [SLOTS]

Listens on the loopback interface, prints its address, and ends by itself after SECONDS. PORT 0 is
any free one. `/slots` and `/metrics` say what the server is busy with.
"""

import sys
import time

import xllamacpp

# The server takes so much text of each slot.
CONTEXT_OF_A_SLOT = 2048


def start(model, port, slots):
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_parallel, params.n_ctx = slots, slots * CONTEXT_OF_A_SLOT
    params.endpoint_slots = params.endpoint_metrics = True
    # Threads that wait for each other in a busy loop are slower than one where cores are few.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    # Errors.
    params.verbosity = 1
    return xllamacpp.Server(params)


if __name__ == "__main__":
    model, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    server = start(model, port, int(sys.argv[4]) if len(sys.argv) > 4 else 4)
    print(server.listening_address, flush=True)
    time.sleep(seconds)
