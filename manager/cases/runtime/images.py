"""The use cases of images: list them with their hosts, put and remove them."""

from collections.abc import Iterable

from sqlalchemy import select

from manager.answers import ImageAnswer, ImageForm, Page
from manager.cases.base import Base, Caller, Paging, operators_only, paged
from manager.committed.state_load import image_of
from manager.observations.reports import HostSeen
from manager.store.database import Store
from manager.store.tables import ImageRow
from merge import Image


class Images(Base):
    """Images, which hosts are made from; operators only."""

    def page(self, caller: Caller, paging: Paging) -> Page[ImageAnswer]:
        """The images, by name."""
        operators_only(caller)
        images = registered_images(self._store)
        names = sorted(name for name in images if name > (paging.after or ""))
        seen = self._seeing.hosts()
        return paged(
            names[: paging.limit + 1],
            paging.limit,
            cursor=lambda name: name,
            answer=lambda name: _answer(images[name], seen),
        )

    def put(self, caller: Caller, name: str, form: ImageForm) -> ImageAnswer:
        """Register an image, or change it; what is placed from then on goes by it."""
        operators_only(caller)
        row = ImageRow(
            name=name,
            tags=sorted(form.tags),
            cores=form.cores,
            start=form.start,
            price=form.price,
            most=form.most,
        )
        return _answer(self._changes.images.put(row, who=caller.who), self._seeing.hosts())

    def remove(self, caller: Caller, name: str) -> ImageAnswer:
        """Remove an image, as it was; its hosts run on, and offer nothing but tags of their own."""
        operators_only(caller)
        return _answer(self._changes.images.remove(name, who=caller.who), self._seeing.hosts())


def registered_images(store: Store) -> dict[str, Image]:
    """The images by name, whichever manager leads."""
    with store.read() as session:
        return {row.name: image_of(row) for row in session.scalars(select(ImageRow))}


def _answer(image: Image, seen: Iterable[HostSeen]) -> ImageAnswer:
    return ImageAnswer(
        name=image.name,
        tags=tuple(sorted(image.tags)),
        cores=image.cores,
        start=image.start,
        price=image.price,
        most=image.most,
        hosts=tuple(sorted(host.host for host in seen if host.alive and host.image == image.name)),
    )
