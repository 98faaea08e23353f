"""References in a broker's file: what they resolve to, and what is refused."""

import pytest

from cluster.configuration.config_providers import resolve_references
from cluster.configuration.errors import ConfigError

PACKAGE = "org.apache.kafka.common.config.provider"
PROVIDERS = {
    "config.providers": "env, file,dir",
    "config.providers.env.class": f"{PACKAGE}.EnvVarConfigProvider",
    "config.providers.file.class": f"{PACKAGE}.FileConfigProvider",
    "config.providers.dir.class": f"{PACKAGE}.DirectoryConfigProvider",
}


def resolve(value, environment=None, **settings):
    extra = {name.replace("_", "."): text for name, text in settings.items()}
    return resolve_references(PROVIDERS | extra | {"x": value}, environment or {})


def test_each_provider(tmp_path):
    (tmp_path / "secrets.properties").write_text("password = s3cret\nother=1\n")
    (tmp_path / "key").write_text("from a file")
    assert resolve("${env:ZONE}", {"ZONE": "a"}) == {"x": "a"}
    assert resolve(f"${{file:{tmp_path}/secrets.properties:password}}") == {"x": "s3cret"}
    assert resolve(f"${{dir:{tmp_path}:key}}") == {"x": "from a file"}


def test_references_stand_anywhere_in_a_value(tmp_path):
    environment = {"HOST": "broker-1", "PORT": "9092"}
    value = "PLAINTEXT://${env:HOST}:${env:PORT},SSL://${env:HOST}:9093"
    assert resolve(value, environment) == {"x": "PLAINTEXT://broker-1:9092,SSL://broker-1:9093"}


@pytest.mark.parametrize("value", ["${vault:secret:key}", "${env}", "$env:X", "plain"])
def test_what_is_no_reference_to_a_provider_is_left_alone(value):
    assert resolve(value) == {"x": value}
    assert resolve_references({"x": "${env:HOME}"}, {"HOME": "/"}) == {"x": "${env:HOME}"}


def test_a_path_with_colons(tmp_path):
    (tmp_path / "a:b").mkdir()
    (tmp_path / "a:b" / "key").write_text("v")
    assert resolve(f"${{dir:{tmp_path}/a:b:key}}") == {"x": "v"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("${env:MISSING}", "no environment variable MISSING"),
        ("${env:/etc:HOME}", "no paths"),
        ("${file:/no/such/file:key}", "No such file"),
        ("${file:key}", "names no path"),
        ("${dir:/no/such:key}", "cannot be read"),
        ("${dir:/etc:../passwd}", "no name of a file"),
    ],
)
def test_what_does_not_resolve_is_refused(value, words):
    with pytest.raises(ConfigError, match=words) as refused:
        resolve(value)
    assert str(refused.value).startswith(f"x={value}")


def test_only_what_is_allowed_is_read(tmp_path):
    (tmp_path / "in").mkdir()
    for folder in (tmp_path, tmp_path / "in"):
        (folder / "key").write_text("v")
    allowed = {"config_providers_dir_param_allowed_paths": str(tmp_path / "in")}
    assert resolve(f"${{dir:{tmp_path}/in:key}}", **allowed) == {"x": "v"}
    for path in (tmp_path, tmp_path / "in" / ".."):
        with pytest.raises(ConfigError, match=r"allowed\.paths"):
            resolve(f"${{dir:{path}:key}}", **allowed)
    pattern = {"config_providers_env_param_allowlist_pattern": "KAFKA_.*"}
    assert resolve("${env:KAFKA_X}", {"KAFKA_X": "1"}, **pattern) == {"x": "1"}
    with pytest.raises(ConfigError, match=r"allowlist\.pattern"):
        resolve("${env:HOME}", {"HOME": "/"}, **pattern)


def test_a_provider_of_ones_own_is_refused():
    properties = {"config.providers": "vault", "config.providers.vault.class": "com.example.VaultProvider"}
    with pytest.raises(ConfigError, match=r"config\.providers\.vault\.class=com\.example"):
        resolve_references(properties, {})
    with pytest.raises(ConfigError, match=r"config\.providers\.vault\.class"):
        resolve_references({"config.providers": "vault"}, {})
