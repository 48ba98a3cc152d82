"""Where claims are made: three widely read articles, torch's own documentation, and threads that many people read."""

from labs.claims.claim import Source

BUS_ERROR = Source('Article: "DataLoader num_workers Bus Error: Docker shm fix"')
RUNTIME_ERRORS = Source('Article: "How do I resolve PyTorch runtime errors related to num_workers?"')
FREEZES = Source('Article: "Why does a PyTorch DataLoader freeze when using multiple workers?"')
BOTH = Source(f"{BUS_ERROR.title}, and {RUNTIME_ERRORS.title.replace('Article: ', '')}")

DATA = "https://docs.pytorch.org/docs/stable/data.html"


def documentation(section: str, anchor: str = "") -> Source:
    """A section of the page on torch.utils.data."""
    return Source(f'PyTorch documentation, torch.utils.data, "{section}"', f"{DATA}#{anchor}" if anchor else DATA)


def issue(number: int, title: str) -> Source:
    return Source(f'pytorch#{number}: "{title}"', f"https://github.com/pytorch/pytorch/issues/{number}")


def pull(number: int, title: str) -> Source:
    return Source(f'pytorch#{number}: "{title}"', f"https://github.com/pytorch/pytorch/pull/{number}")


def tutorial(section: str = "") -> Source:
    """torch's own on making loading fast, as it stands in its repository."""
    title = 'PyTorch tutorial "Data Loading Optimization in PyTorch"'
    url = "https://github.com/pytorch/tutorials/blob/main/intermediate_source/intermediate_data_loading_tutorial.py"
    return Source(f'{title}, "{section}"' if section else title, url)


def forum(title: str, url: str) -> Source:
    return Source(f'PyTorch forum: "{title}"', url)


TOO_MANY_WORKERS = pull(46867, "add warning if DataLoader is going to create excessive number of worker")
