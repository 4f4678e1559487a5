"""The commands about images, which hosts are made from: list, add, remove."""

from typing import Annotated

import typer

from manager.answers import ImageForm
from manager.client.client import Client
from manager.commands.client_command import client_command, fill_form
from manager.commands.display import Shown, counted, table

app = typer.Typer(no_args_is_help=True, add_completion=False)
Image = Annotated[str, typer.Argument(help="The image.", metavar="NAME")]


@app.command("list")
@client_command
def list_images(client: Client) -> Shown:
    """List the registered images with their hosts."""
    found = tuple(client.images())
    rows = ((each.name, each.tags, each.cores, each.start, each.price, each.most, each.hosts) for each in found)
    columns = ("image", "tags", "cores", "start s", "price/h", "most", "hosts")
    return Shown(data=found, text=table(*columns, rows=rows, empty="no images"))


@app.command()
@client_command
def add(  # noqa: PLR0913, PLR0917 - one for each argument and option
    client: Client,
    name: Image,
    tag: Annotated[
        list[str] | None, typer.Option(help="What each of its hosts offers, such as gpu; may be repeated.")
    ] = None,
    cores: Annotated[float, typer.Option(help="The cores of each host.")] = 1.0,
    start: Annotated[float, typer.Option(help="Seconds until a new host is there.")] = 0.0,
    price: Annotated[float, typer.Option(help="What a host costs for an hour.")] = 0.0,
    most: Annotated[int | None, typer.Option(help="How many hosts there may be; any number if left out.")] = None,
) -> Shown:
    """Register an image, or change it. Start hosts of it with `braid host --image NAME`."""
    form = fill_form(ImageForm, tags=tag or None, cores=cores, start=start, price=price, most=most)
    answer = client.put_image(name, form)
    offers = f"offers {', '.join(answer.tags)}" if answer.tags else "offers no tags"
    return Shown(data=answer, text=f"{answer.name} is registered: it {offers}, and has {answer.cores:g} cores a host")


@app.command()
@client_command
def remove(client: Client, name: Image) -> Shown:
    """Remove an image. Its hosts run on, and offer nothing but tags of their own."""
    answer = client.remove_image(name)
    left = f"; {counted(len(answer.hosts), 'host')} of it left" if answer.hosts else ""
    return Shown(data=answer, text=f"{answer.name} is removed{left}")
