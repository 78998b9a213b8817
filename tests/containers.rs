//! An operator builds the image and starts it beside a broker. Where no container engine is at hand, the files are
//! at least linted, parsed and compared with what they refer to.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The services of the compose file that are instances of Freshet.
const INSTANCES: [&str; 3] = ["freshet-1", "freshet-2", "freshet-3"];

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A program of the tests' Python environment.
fn program(name: &str) -> Command {
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").expect("a home")).join(".cache"),
        PathBuf::from,
    );
    let path = cache.join("freshet/venv/bin").join(name);
    assert!(path.exists(), "{} is missing; tests/install prepares it", path.display());
    let mut command = Command::new(path);
    command.current_dir(ROOT);
    command
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The instructions of the Dockerfile: the word, and the rest with its continuation lines joined.
fn instructions() -> Vec<(String, String)> {
    let mut instructions = Vec::new();
    let mut whole = String::new();
    for line in read("docker/Dockerfile").lines().filter(|line| !line.trim_start().starts_with('#')) {
        whole.push_str(line.trim());
        if whole.ends_with('\\') {
            whole.pop();
            continue;
        }
        if let Some((word, rest)) = whole.split_once(' ') {
            instructions.push((word.to_owned(), rest.trim().to_owned()));
        }
        whole.clear();
    }
    instructions
}

fn arguments_of(word: &str) -> Vec<String> {
    instructions().into_iter().filter(|(found, _)| found == word).map(|(_, rest)| rest).collect()
}

/// `name:version`, where the version begins with a number and is at least major.minor.
fn is_pinned(image: &str) -> bool {
    image.rsplit_once(':').is_some_and(|(_, tag)| {
        let version = tag.split('-').next().unwrap_or_default();
        version.contains('.') && version.split('.').all(|part| part.parse::<u32>().is_ok())
    })
}

/// The compose file as JSON, read by a YAML parser.
fn compose() -> Value {
    let output = program("python")
        .args(["-c", "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"])
        .stdin(Stdio::from(
            std::fs::File::open(Path::new(ROOT).join("docker/compose.yaml")).expect("the file"),
        ))
        .output()
        .expect("python runs");
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn services(compose: &Value) -> Vec<(&String, &Value)> {
    compose["services"].as_object().expect("services").iter().collect()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|item| item.as_str().expect("a text")).collect()
}

#[test]
fn the_dockerfile_passes_its_linter() {
    let output = program("hadolint").arg("docker/Dockerfile").output().expect("hadolint runs");
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn versions_are_pinned_and_only_numbers_count_as_versions() {
    assert!(is_pinned("debian:12.12-slim"));
    for image in ["debian", "debian:latest", "debian:12", "debian:bookworm-slim"] {
        assert!(!is_pinned(image), "{image}");
    }
    let from = arguments_of("FROM");
    assert_eq!(from.len(), 2, "a stage that builds and one that runs");
    for stage in &from {
        let image = stage.split(' ').next().expect("an image");
        assert!(is_pinned(image), "{image}");
    }
    for (name, service) in services(&compose()) {
        let image = service["image"].as_str().expect("an image");
        assert!(is_pinned(image), "{name}: {image}");
    }
}

#[test]
fn the_image_is_built_by_the_toolchain_of_the_repository() {
    let toolchain = read("rust-toolchain.toml");
    let channel = toolchain.split('"').nth(1).expect("a channel");
    assert!(arguments_of("FROM")[0].starts_with(&format!("rust:{channel}-")), "{channel}");
    let version = format!("freshet:{}", env!("CARGO_PKG_VERSION"));
    for instance in INSTANCES {
        assert_eq!(compose()["services"][instance]["image"], version);
    }
}

#[test]
fn the_image_runs_as_nobody_in_particular_and_tells_its_health() {
    let user = arguments_of("USER").pop().expect("a user");
    let id: u32 = user.split(':').next().expect("an id").parse().expect("a number, which engines can check");
    assert!(id >= 1000, "{user}");
    let health = arguments_of("HEALTHCHECK").pop().expect("a health check");
    assert!(health.contains("/livez"), "{health}");
    let command = arguments_of("CMD").pop().expect("a command");
    assert_eq!(command, r#"["run", "--config", "/etc/freshet/freshet.toml"]"#);
}

#[test]
fn what_the_build_copies_is_there_and_is_not_ignored() {
    let ignore = read(".dockerignore");
    let kept: Vec<_> = ignore.lines().filter_map(|line| line.strip_prefix('!')).collect();
    for path in &kept {
        assert!(Path::new(ROOT).join(path).exists(), ".dockerignore: {path}");
    }
    for copy in
        arguments_of("COPY").iter().filter(|copy| !copy.starts_with("--from") && !copy.starts_with('.'))
    {
        let source = copy.split(' ').next().expect("a source");
        assert!(Path::new(ROOT).join(source).exists(), "{source}");
        assert!(kept.iter().any(|kept| source.starts_with(kept)), "{source} is ignored");
    }
    for member in ["Cargo.toml", "Cargo.lock", "src", "actors", "tests/load"] {
        assert!(kept.contains(&member), "{member} is a part of the build");
    }
}

#[test]
fn ports_are_published_on_this_machine_only() {
    for (name, service) in services(&compose()) {
        for port in texts(&service["ports"]) {
            assert!(port.starts_with("127.0.0.1:"), "{name}: {port}");
        }
    }
}

#[test]
fn secrets_come_from_outside_and_must_be_given() {
    for (name, service) in services(&compose()) {
        for (variable, value) in service["environment"].as_object().into_iter().flatten() {
            let is_secret =
                ["PASSWORD", "PASSCODE", "SECRET", "TOKEN"].iter().any(|word| variable.contains(word));
            let value = value.as_str().expect("a text");
            assert!(!is_secret || (value.starts_with("${") && value.contains(":?")), "{name}: {variable}");
        }
    }
}

#[test]
fn whatever_the_compose_file_refers_to_exists() {
    let compose = compose();
    for (name, service) in services(&compose) {
        assert!(service["healthcheck"]["test"].is_array(), "{name} tells its health");
        for other in texts(&service["depends_on"]) {
            assert!(compose["services"][other].is_object(), "{name} depends on {other}");
        }
        for network in texts(&service["networks"]) {
            let is_there = network == "default"
                || compose["networks"].as_object().expect("networks").contains_key(network);
            assert!(is_there, "{name}: {network}");
        }
        for volume in texts(&service["volumes"]) {
            let source = volume.split(':').next().expect("a source");
            let is_there = match source.strip_prefix("./") {
                Some(path) => Path::new(ROOT).join("docker").join(path).is_file(),
                None => compose["volumes"].as_object().expect("volumes").contains_key(source),
            };
            assert!(is_there, "{name}: {volume}");
        }
        if let Some(dockerfile) = service["build"]["dockerfile"].as_str() {
            assert!(Path::new(ROOT).join(dockerfile).is_file(), "{name}: {dockerfile}");
        }
    }
}

#[test]
fn only_instances_reach_the_shared_log() {
    let compose = compose();
    assert_eq!(compose["networks"]["log"]["internal"], true);
    assert_eq!(compose["services"]["redis"]["ports"], Value::Null);
    assert_eq!(texts(&compose["services"]["redis"]["networks"]), ["log"]);
    let with_log = services(&compose)
        .into_iter()
        .filter(|(_, service)| texts(&service["networks"]).contains(&"log"))
        .map(|(name, _)| name.as_str())
        .collect::<HashSet<_>>();
    assert_eq!(with_log, HashSet::from_iter(INSTANCES.into_iter().chain(["redis"])));
}

/// The words after `server` in the lines of a balancer's configuration that name an instance.
fn balanced(configuration: &str) -> Vec<Vec<String>> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines = configuration.lines().map(words);
    lines.filter(|words| words.len() > 2 && words[0] == "server").map(|words| words[1..].to_vec()).collect()
}

#[test]
fn the_balancers_serve_each_instance() {
    let addresses = INSTANCES.map(|instance| format!("{instance}:8080"));
    let haproxy = balanced(&read("docker/haproxy.cfg"));
    let by_readiness: Vec<_> = haproxy.iter().filter(|words| !words[0].ends_with("-anyway")).collect();
    assert!(by_readiness.iter().map(|words| &words[1]).eq(&addresses), "{haproxy:?}");
    let anyway: Vec<_> = haproxy.iter().filter(|words| words[0].ends_with("-anyway")).collect();
    assert!(anyway.iter().map(|words| &words[1]).eq(&addresses), "{haproxy:?}");
    assert!(anyway.iter().all(|words| words[2..] == ["backup", "no-check"]), "{haproxy:?}");
    let nginx = balanced(&read("docker/nginx.conf"));
    assert!(nginx.iter().map(|words| &words[0]).eq(&addresses), "{nginx:?}");
}

#[test]
fn a_heartbeat_comes_before_a_balancer_loses_patience() {
    let heartbeat_secs = freshet_session::Config::default().heartbeat_secs;
    let seconds = |configuration: &str, word: &str| {
        let text = read(configuration);
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix(word)).map(str::to_owned);
        let times: Vec<u64> = lines
            .map(|time| time.trim().trim_end_matches(';').trim_end_matches('s').parse().expect("seconds"))
            .collect();
        assert_eq!(times.len(), 1, "{configuration}: {word}");
        times[0]
    };
    for (configuration, word) in [
        ("docker/haproxy.cfg", "timeout client "),
        ("docker/haproxy.cfg", "timeout server "),
        ("docker/haproxy.cfg", "timeout tunnel "),
        ("docker/nginx.conf", "proxy_read_timeout "),
        ("docker/nginx.conf", "send_timeout "),
    ] {
        // Heartbeats vary by a tenth, and one may be late.
        assert!(seconds(configuration, word) > heartbeat_secs * 2, "{configuration}: {word}");
    }
}

#[test]
fn the_configuration_of_haproxy_is_good() {
    let path = std::env::var("PATH").expect("a path");
    let output = Command::new("haproxy")
        .args(["-c", "-f", "docker/haproxy.cfg"])
        .current_dir(ROOT)
        // Debian keeps servers where not everyone looks for programs.
        .env("PATH", format!("{path}:/usr/sbin"))
        .output()
        .expect("haproxy runs; tests/install installs it");
    assert!(output.status.success(), "{}", said(&output));
    assert!(!said(&output).contains("[WARNING]"), "{}", said(&output));
}

#[test]
fn the_configurations_of_the_containers_are_good() {
    for (file, variables) in [
        ("docker/config/image.toml", &[][..]),
        (
            "docker/config/compose.toml",
            &[("ACTIVEMQ_USER", "freshet"), ("ACTIVEMQ_PASSWORD", "a-secret"), ("FRESHET_INSTANCE", "1")][..],
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_freshet"))
            .args(["check", file])
            .current_dir(ROOT)
            .env_clear()
            .envs(variables.iter().copied())
            .output()
            .expect("freshet runs");
        assert!(output.status.success(), "{file}: {}", said(&output));
        let text = read(file);
        assert!(text.contains("allow_remote = true"), "{file} says by name that it can be reached");
    }
}
