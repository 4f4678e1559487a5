# Generated from async_planning.py by `make client`: edit that file.
"""The part of a client that is about what is planned and what adapts: modules, pipelines and dynamic dataflows."""

from collections.abc import Iterator, Mapping

from manager.answers import (
    AdaptationAnswer,
    ChoiceForm,
    ModuleAnswer,
    ModuleDetail,
    ReplanAnswer,
    ReplanForm,
    WheelAnswer,
)
from manager.client.connection import ServiceConnection
from manager.client.requests import adaptations, modules, pipelines, wheels
from manager.client.requests.request import Document
from planning.shape import ModuleShape


class PlanningClient(ServiceConnection):
    """Publishes modules and plans pipelines with one API key."""

    def replan(self, dataflow: str, form: ReplanForm, *, dry_run: bool = False) -> ReplanAnswer:
        """Plan a running pipeline anew and apply the difference; or preview that."""
        return self.send(pipelines.replan(dataflow, form, dry_run=dry_run))

    def adaptation(self, dataflow: str) -> AdaptationAnswer:
        """What a dynamic dataflow has chosen, and by which figures."""
        return self.send(adaptations.adaptation(dataflow))

    def set_policy(self, dataflow: str, policy: Document) -> AdaptationAnswer:
        """Replace the policy of a dynamic dataflow. What runs stays, until the new policy asks for something else."""
        return self.send(adaptations.set_policy(dataflow, policy))

    def choose(self, dataflow: str, choose: Mapping[str, str | bool]) -> AdaptationAnswer:
        """Choose alternates and streams by hand. What is left out is left to the service again."""
        return self.send(adaptations.choose(dataflow, ChoiceForm(choose=dict(choose))))

    def publish_module(self, form: Document) -> ModuleDetail:
        """Publish a version of a module; the same text again changes nothing."""
        return self.send(modules.publish_module(form))

    def modules(
        self,
        *,
        tenant: str | None = None,
        name: str | None = None,
        shape: ModuleShape | None = None,
        tag: str | None = None,
        deprecated: bool | None = None,
    ) -> Iterator[ModuleAnswer]:
        """The versions of modules that the caller may use, in the order of publication."""
        request = modules.modules(tenant=tenant, name=name, shape=shape, tag=tag, deprecated=deprecated)
        return self._items(request)

    def module_versions(self, name: str, *, tenant: str | None = None) -> Iterator[ModuleAnswer]:
        """The versions of a module, oldest first."""
        return self._items(modules.module_versions(name, tenant))

    def module(self, name: str, version: int, *, tenant: str | None = None) -> ModuleDetail:
        """One version of a module with its form; operators name the tenant whose it is."""
        return self.send(modules.module(name, version, tenant))

    def put_wheel(self, content: bytes) -> WheelAnswer:
        """Send a wheel that code will import from, before the module that requires it."""
        return self.send(wheels.put_wheel(content))

    def wheels(self, *, tenant: str | None = None) -> Iterator[WheelAnswer]:
        """The wheels that were sent, in their order; operators see everybody's."""
        return self._items(wheels.wheels(tenant))

    def remove_wheel(self, digest: str, *, tenant: str | None = None) -> WheelAnswer:
        """Remove a wheel that no module requires."""
        return self.send(wheels.remove_wheel(digest, tenant))

    def deprecate_module(self, name: str, version: int, *, tenant: str | None = None) -> ModuleAnswer:
        """Deprecate a version: from now on only pipelines that name it or hold it use it."""
        return self.send(modules.deprecate_module(name, version, tenant))

    def vouch_for_module(self, name: str, version: int, *, tenant: str) -> ModuleAnswer:
        """Vouch for a version of a tenant's code; operators only."""
        return self.send(modules.vouch_for_module(name, version, tenant))

    def withdraw_vouch(self, name: str, version: int, *, tenant: str) -> ModuleAnswer:
        """Vouch for a version no longer; operators only."""
        return self.send(modules.withdraw_vouch(name, version, tenant))
