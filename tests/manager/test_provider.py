"""The provider of OpenID Connect: which tokens are taken, and what people may do by them."""

import hmac
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qsl, urlsplit

import pytest
from joserfc.jwk import RSAKey

from braid_client.answers.tenants import Role
from manager.problem import Forbidden, ProviderAway, Unauthenticated
from manager.provider import Person, Provider, SignIn
from manager.settings import GroupRole
from tests.oidc_providers import CLIENT, StrictProvider, provider_at, strict_provider

PAGE = "https://braid.example/"


class _Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def served() -> Iterator[StrictProvider]:
    with strict_provider() as made:
        yield made


@pytest.fixture
def strict(served: StrictProvider) -> StrictProvider:
    """The served provider, as it is at first."""
    del served.keys[1:]
    served.claims, served.asked, served.fetched = {}, {}, 0
    return served


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def provider(strict: StrictProvider, clock: _Clock) -> Provider:
    return provider_at(strict.issuer, clock=clock)


def test_a_token_says_who_somebody_is(strict: StrictProvider, provider: Provider) -> None:
    """The subject, a name for people, and of the groups those of the table; one group may be a text."""
    token = strict.token(preferred_username="ann", groups=["bobs", "others", "anns"], aud=["others", CLIENT])
    assert Person(subject="ann-1", name="ann", groups=("anns", "bobs")) == provider.bearer(token)
    assert Person(subject="ann-1", name="ann-1", groups=("ops",)) == provider.bearer(strict.token(groups="ops"))
    assert () == provider.bearer(strict.token(groups=None)).groups
    assert 1 == strict.fetched


def _by_public_key(provider: StrictProvider) -> str:
    """A token that is signed with the public key, as if that were a shared secret."""
    head = urlsafe_b64encode(b'{"alg":"HS256","kid":"first"}').rstrip(b"=").decode()
    signed = f"{head}.{provider.token().split('.')[1]}"
    signature = hmac.digest(provider.keys[0].as_pem(private=False), signed.encode(), "sha256")
    return f"{signed}.{urlsafe_b64encode(signature).rstrip(b'=').decode()}"


_OTHER = RSAKey.generate_key(2048, {"kid": "first"})
WRONG: dict[str, tuple[Callable[[StrictProvider], str], str]] = {
    "audience": (lambda p: p.token(aud="grafana"), "wrong audience: it is for grafana; get one for braid"),
    "no audience": (lambda p: p.token(aud=None), "wrong audience: it is for nobody"),
    "expired": (lambda p: p.token(exp=int(time.time()) - 60), "the token has expired; get a new one"),
    "without an end": (lambda p: p.token(exp=None), "the token is not valid"),
    "not yet": (lambda p: p.token(nbf=int(time.time()) + 600), "not yet valid"),
    "issuer": (lambda p: p.token(iss="https://elsewhere.example"), "of another issuer"),
    "no subject": (lambda p: p.token(sub=None), "names no subject"),
    "another key of that name": (lambda p: p.token(_OTHER), "neither an API key nor a token that the provider"),
    "unknown key": (lambda p: p.token(RSAKey.generate_key(2048, {"kid": "x"})), "by a key that .* does not publish"),
    "no signature": (lambda p: p.token().rpartition(".")[0] + ".", "neither an API key nor a token"),
    "no token": (lambda _: "a.b.c", "neither an API key nor a token"),
    "shared secret": (_by_public_key, "by an algorithm that is not taken"),
    "unsigned": (lambda p: "eyJhbGciOiJub25lIn0." + p.token().split(".")[1] + ".", "an algorithm that is not taken"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_token_lets_nobody_in(strict: StrictProvider, provider: Provider, what: str) -> None:
    """The refusal says what is wrong with it."""
    make, said = WRONG[what]
    with pytest.raises(Unauthenticated, match=said):
        provider.bearer(make(strict))


def test_a_new_key_counts_once_a_token_names_it(strict: StrictProvider, provider: Provider, clock: _Clock) -> None:
    """Keys are fetched for it, but not for each token that anybody makes up; one that is withdrawn ends in time."""
    first = strict.token()
    provider.bearer(first)
    strict.keys.append(RSAKey.generate_key(2048, {"kid": "second", "use": "sig"}))
    second = strict.token()
    with pytest.raises(Unauthenticated, match="does not publish"):
        provider.bearer(second)
    assert 1 == strict.fetched
    clock.now += 11.0
    assert "ann-1" == provider.bearer(second).subject
    for _ in range(5):
        with pytest.raises(Unauthenticated):
            provider.bearer(strict.token(RSAKey.generate_key(2048, {"kid": "made up"})))
    assert 2 == strict.fetched
    strict.keys.append(RSAKey.generate_key(2048, {"kid": "third", "use": "sig"}))
    del strict.keys[1]
    assert "ann-1" == provider.bearer(second).subject
    clock.now += 601.0
    with pytest.raises(Unauthenticated, match="does not publish"):
        provider.bearer(second)
    assert "ann-1" == provider.bearer(first).subject


def test_known_keys_count_while_the_provider_is_away(clock: _Clock) -> None:
    """Without any the answer is to ask again later, and the provider is not asked at each request."""
    with strict_provider() as made:
        provider, token = provider_at(made.issuer, clock=clock), made.token()
        provider.bearer(token)
    clock.now += 601.0
    assert "ann-1" == provider.bearer(token).subject
    new = provider_at(made.issuer, clock=clock)
    for _ in range(2):
        with pytest.raises(ProviderAway, match=f"the provider at {made.issuer} does not answer: "):
            new.bearer(token)


def test_nobody_waits_for_new_keys_who_has_known_ones(
    strict: StrictProvider, provider: Provider, clock: _Clock
) -> None:
    """One request fetches the keys once they are old; others are let in by the old ones until they are there."""
    ann, token = provider.bearer(strict.token()), strict.token()
    clock.now += 601.0
    strict.is_asked.clear()
    strict.answers.clear()
    with ThreadPoolExecutor(1) as pool:
        try:
            fetching = pool.submit(provider.bearer, token)
            strict.is_asked.wait()
            assert ann == provider.bearer(token)
        finally:
            strict.answers.set()
        assert ann == fetching.result()
    # Had it waited, the fetch would have been given up, and be tried again.
    clock.now += 11.0
    assert ann == provider.bearer(token)
    assert 2 == strict.fetched


def test_a_provider_by_another_name_is_refused(strict: StrictProvider) -> None:
    """Its keys would let in whom the one that was meant has never seen."""
    with pytest.raises(ProviderAway, match=r"it calls itself .*; correct the setting oidc_issuer"):
        provider_at(f"{strict.issuer}/").bearer(strict.token())


def test_a_code_is_redeemed_by_who_asked_for_it(strict: StrictProvider, provider: Provider) -> None:
    """With the verifier that only the browser has, and for a token with the nonce of that sign-in."""
    begun = SignIn.new()
    assert begun == SignIn.parse(begun.text)
    strict.asked = dict(parse_qsl(urlsplit(provider.begin(begun, PAGE)).query))
    assert ("code", "S256", begun.state) == tuple(
        strict.asked[name] for name in ("response_type", "code_challenge_method", "state")
    )
    assert begun.verifier not in strict.asked.values()
    assert "ann-1" == provider.signed_in(begun, "the-code", PAGE).subject
    with pytest.raises(Unauthenticated, match="did not take the sign-in: invalid_grant; sign in again"):
        provider.signed_in(SignIn.new(), "the-code", PAGE)
    strict.claims = {"nonce": "another"}
    with pytest.raises(Unauthenticated, match="the token is of another sign-in"):
        provider.signed_in(begun, "the-code", PAGE)
    strict.claims = {"aud": "grafana"}
    with pytest.raises(Unauthenticated, match="wrong audience"):
        provider.signed_in(begun, "the-code", PAGE)


def test_the_first_row_of_the_table_counts(provider: Provider) -> None:
    """So the order of the table says what becomes of people in several groups; without any nobody gets in."""
    person = Person(subject="1", name="ann", groups=("bobs", "anns"))
    assert GroupRole(Role.TENANT, "ann") == provider.granted(person)
    with pytest.raises(Forbidden, match="ann is in no group that the setting oidc_groups names, by the claim 'groups'"):
        provider.granted(Person(subject="1", name="ann", groups=()))
