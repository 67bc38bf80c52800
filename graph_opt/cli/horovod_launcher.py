"""What ranks of Horovod need to find each other, from the launcher that `horovodrun` is made of."""

from __future__ import annotations

import contextlib
import importlib
import threading
from typing import Any, Dict, Iterator, List, NamedTuple

from graph_opt.cli.exit_codes import WrongInput
from graph_opt.sharding.store import RendezvousStore, Store

_NONE = (
    "-np {} needs Horovod, which cannot be imported ({}): install it with "
    "'pip install graph_opt[horovod]' (or 'make horovod' in a checkout)"
)
_THIS_MACHINE = "localhost"


class Rendezvous(NamedTuple):
    """Where ranks find each other.

    Attributes:
      environments: What Horovod wants in each rank's environment.
      store: What ranks leave there for each other.
    """

    environments: List[Dict[str, str]]
    store: Store


@contextlib.contextmanager
def rendezvous_of(num_ranks: int) -> Iterator[Rendezvous]:
    """Serves the rendezvous of so many ranks on this machine, over Gloo, within the block.

    Raises:
      WrongInput: Horovod is not installed.
    """
    try:
        runner: Any = importlib.import_module("horovod.runner.gloo_run")
        network: Any = importlib.import_module("horovod.runner.util.network")
        http: Any = importlib.import_module("horovod.runner.http.http_server")
    except ImportError as error:
        raise WrongInput(_NONE.format(num_ranks, error)) from error
    interfaces = network.get_local_intfs()
    address = network.get_driver_ip(interfaces)
    slots = runner.get_host_assignments(
        runner.parse_hosts("{}:{}".format(_THIS_MACHINE, num_ranks)), num_ranks
    )
    # Horovod's own server listens on all addresses, and takes and gives to anybody what is in it.
    server = http.RendezvousHTTPServer((address, 0), http.RendezvousHandler, 0)
    server.init(slots)
    thread = threading.Thread(target=server.serve_forever, name="rendezvous", daemon=True)
    thread.start()
    port = server.server_address[1]
    of_all = runner.create_run_env_vars(address, interfaces, port)
    try:
        yield Rendezvous(
            [_texts(dict(of_all, **runner.create_slot_env_vars(slot))) for slot in slots],
            RendezvousStore(address, port),
        )
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _texts(values: Dict[str, Any]) -> Dict[str, str]:
    return {name: str(value) for name, value in values.items()}
