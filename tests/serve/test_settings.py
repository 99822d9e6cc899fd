"""One configuration from file, environment and flags; what cannot be used is refused before anything starts."""

from pathlib import Path

import pytest

from penstock.backends import TenantUsers
from penstock.client import DataDir
from penstock.core import InputError, UnknownNameError
from penstock.serve import Config, load_config
from penstock.serve.assembly import load_backend
from penstock.tools import SteadyClock


def written(folder: Path, text: str) -> Path:
    path = folder / "penstock.toml"
    path.write_text(text)
    return path


def test_without_anything_the_defaults_hold(tmp_path: Path) -> None:
    assert load_config(environ={"PENSTOCK_DATA_DIR": str(tmp_path)}) == Config(data_dir=tmp_path)


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    written(tmp_path, 'policy = "edf"\nport = 1\nhost = "localhost"\nslot = "2m"\nlog_format = "json"\n')
    environ = {"PENSTOCK_DATA_DIR": str(tmp_path), "PENSTOCK_PORT": "2", "PENSTOCK_LOG_FORMAT": "text"}
    config = load_config({"port": 3, "slots": None}, environ=environ)
    assert (config.policy, config.host, config.slot_s) == ("edf", "localhost", 120.0)
    assert (config.port, config.log_format, config.slots) == (3, "text", None)


def test_a_file_of_ones_own_is_named_by_flag_or_variable(tmp_path: Path) -> None:
    path = written(tmp_path, f'data_dir = "{tmp_path / "elsewhere"}"\n[backend_settings]\nqueue = "gpu"\n')
    for config in (load_config(file=path, environ={}), load_config(environ={"PENSTOCK_CONFIG": str(path)})):
        assert config.data_dir == tmp_path / "elsewhere"
        assert config.backend_settings == {"queue": "gpu"}


def test_an_unknown_key_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"polcy.*Did you mean 'policy'"):
        load_config(file=written(tmp_path, 'polcy = "edf"\n'), environ={})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('port = "many"', "port = 'many'.*a whole number"),
        ("port = true", "port = True.*a whole number"),
        ("host = 7", "host = 7.*text"),
        ('exposed = "perhaps"', "exposed = 'perhaps'.*true or false"),
        ('slot = "6 parsecs"', "slot = '6 parsecs'"),
        ('backend_settings = "x"', "a table"),
        ("port = ", "is not TOML"),
        ("port = 70000", "65535"),
        ('host = "0.0.0.0"', "exposed"),
        ('log_format = "xml"', "xml.*json, text"),
    ],
)
def test_a_value_of_the_wrong_kind_says_what_was_given_and_what_is_allowed(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        load_config(file=written(tmp_path, text), environ={})


def test_a_file_that_was_named_and_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be read.*Check --config"):
        load_config(file=tmp_path / "nothing.toml", environ={})


URL = "postgresql+psycopg://penstock@db.example:5432/jobs?sslmode=require"


def test_a_password_does_not_stand_on_the_command_line(tmp_path: Path) -> None:
    secret = URL.replace("penstock@", "penstock:hush@")
    with pytest.raises(InputError, match=r"process list.*PENSTOCK_DATABASE.*database_password_file") as refused:
        load_config({"database": secret}, environ={})
    assert "hush" not in str(refused.value)
    assert load_config({"database": URL}, environ={}).database_url == URL
    config = load_config(environ={"PENSTOCK_DATABASE": secret})
    assert config.database_url == secret
    assert "hush" not in repr(config)
    assert load_config(file=written(tmp_path, f'database = "{secret}"'), environ={}).database_url == secret


def test_the_password_of_a_database_lies_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("hu/s:h@\n")
    config = load_config({"database": URL}, environ={"PENSTOCK_DATABASE_PASSWORD_FILE": str(file)})
    assert config.database_url == URL.replace("penstock@", "penstock:hu%2Fs%3Ah%40@")
    with pytest.raises(InputError, match="cannot be read"):
        _ = load_config({"database": URL, "database_password_file": str(tmp_path / "none")}, environ={}).database_url
    with pytest.raises(InputError, match="without a user"):
        _ = load_config({"database_password_file": str(file)}, environ={}).database_url


def test_who_jobs_run_as_is_a_name_a_pattern_or_a_table(tmp_path: Path) -> None:
    assert load_config({"run_as": "svc-{tenant}"}, environ={}).run_as == "svc-{tenant}"
    config = load_config(file=written(tmp_path, f'data_dir = "{tmp_path}/home"\n[run_as]\nred = "games"\n'), environ={})
    assert config.run_as == {"red": "games"}
    assert config.job_files == tmp_path / "home-jobs"
    assert load_config({"data_dir": tmp_path / "alone"}, environ={}).job_files == tmp_path / "alone"
    with pytest.raises(InputError, match="table from tenants to names"):
        load_config(file=written(tmp_path, "[run_as]\nred = 5\n"), environ={})
    with pytest.raises(InputError, match="outside of it"):
        load_config({"data_dir": tmp_path / "a", "jobs_dir": tmp_path / "a" / "jobs", "run_as": "games"}, environ={})


def test_variables_for_jobs_are_a_list_or_separated_by_commas(tmp_path: Path) -> None:
    assert load_config(environ={"PENSTOCK_PASS_ENVIRONMENT": "A, SITE_*"}).pass_environment == ("A", "SITE_*")
    file = written(tmp_path, 'pass_environment = ["A"]\naccept_shared_user = true\n')
    config = load_config(file=file, environ={})
    assert (config.pass_environment, config.accept_shared_user) == (("A",), True)
    with pytest.raises(InputError, match="a list of names"):
        load_config(file=written(tmp_path, "pass_environment = 5\n"), environ={})


def test_a_server_that_starts_by_itself_has_the_slots_of_the_one_before(tmp_path: Path) -> None:
    home = DataDir(tmp_path)

    def slots(config: Config) -> int:
        (node,) = load_backend(config, home, TenantUsers(), SteadyClock()).nodes()
        return node.device_count

    given, by_itself = Config(data_dir=tmp_path, slots=3), Config(data_dir=tmp_path)
    assert [slots(config) for config in (given, by_itself, by_itself)] == [3, 3, 3]
    slots(Config(data_dir=tmp_path, slots=0))
    assert home.slots() == 0
