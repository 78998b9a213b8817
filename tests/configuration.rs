//! The configuration as its users meet it: files, variables, problems and references.

use std::fs;
use std::path::{Path, PathBuf};

use freshet::config::{self, Configuration, LogFormat, Overrides, Place};
use freshet::exit_code::ExitCode;
use freshet::{cli, config::Problems};

/// Stands for every secret and for every value that comes from a variable.
const CANARY: &str = "canary-4f1d";

fn variables(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn parse(text: &str, pairs: &[(&str, &str)]) -> Result<Configuration, Problems> {
    config::parse(Some((Path::new("x.toml"), text)), &variables(pairs), &Overrides::default())
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn toml_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            files.extend(toml_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn each_wrong_file_is_told_all_its_problems() {
    let cases = toml_files(&root().join("tests/cases/configuration"));
    assert!(cases.len() >= 25, "only {} cases", cases.len());
    let mut failures = Vec::new();
    for file in cases {
        let name = PathBuf::from(file.file_name().unwrap());
        let text = fs::read_to_string(&file).unwrap();
        let mut environment = variables(&[("CANARY", CANARY)]);
        if let Ok(lines) = fs::read_to_string(file.with_extension("environment")) {
            let pairs = lines.lines().map(|line| line.split_once('=').unwrap());
            environment.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        let found = match config::parse(Some((&name, &text)), &environment, &Overrides::default()) {
            Ok(_) => "ok\n".to_owned(),
            Err(problems) => format!("{problems}\n"),
        };
        let expected = fs::read_to_string(file.with_extension("expected")).unwrap();
        if found != expected {
            failures.push(format!("{}\nexpected:\n{expected}found:\n{found}", name.display()));
        }
        assert!(!found.contains("canary-"), "{found}");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_shipped_file_is_good() {
    let credentials = tempfile::tempdir().unwrap();
    fs::write(credentials.path().join("stomp-passcode"), format!("{CANARY}\n")).unwrap();
    let folder = credentials.path().to_string_lossy();
    let environment = variables(&[
        ("STOMP_PASSCODE", CANARY),
        ("FRESHET_INSTANCE", "a"),
        ("CREDENTIALS_DIRECTORY", &folder),
    ]);
    let files = toml_files(&root().join("config"));
    assert!(files.len() >= 7, "{files:?}");
    for file in files {
        let answer = cli::check(&file, &environment);
        assert_eq!((answer.code, answer.output.as_str(), answer.error.as_str()), (ExitCode::Ok, "ok\n", ""));
        let configuration = config::load(Some(&file), &environment, &Overrides::default()).unwrap();
        let is_example = file.file_name().is_some_and(|name| name != "freshet.toml");
        assert_eq!(!configuration.stomp.is_empty(), is_example, "{}", file.display());
        for subscription in &configuration.stomp {
            assert_eq!(subscription.passcode.expose(), CANARY, "{}", file.display());
        }
    }
}

#[test]
fn a_check_of_a_bad_file_exits_with_78_and_says_why() {
    let file = root().join("tests/cases/configuration/unknown_key.toml");
    let answer = cli::check(&file, &[]);
    assert_eq!((answer.code.number(), answer.output.as_str()), (78, ""));
    assert_eq!(answer.error.lines().count(), 3);
    let first = format!("{}:3:1: unknown key \"workres\", did you mean \"workers\"?\n", file.display());
    assert!(answer.error.starts_with(&first), "{}", answer.error);
}

#[test]
fn a_file_that_cannot_be_read_is_a_problem_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let message = |path: &Path| {
        let problems = config::load(Some(path), &[], &Overrides::default()).unwrap_err();
        problems.to_string().replace(&*folder.path().to_string_lossy(), "")
    };
    assert_eq!(message(&folder.path().join("none.toml")), "/none.toml: cannot be read: entity not found");
    let latin = folder.path().join("latin.toml");
    fs::write(&latin, b"# first line\n# caf\xe9\n").unwrap();
    assert_eq!(message(&latin), "/latin.toml:2:6: the text is not UTF-8 from here on");
    let large = folder.path().join("large.toml");
    fs::write(&large, "#".repeat(1_048_577)).unwrap();
    assert_eq!(message(&large), "/large.toml: is larger than 1048576 bytes");
}

#[test]
fn nothing_configured_is_the_default() {
    let configuration = config::load(None, &[], &Overrides::default()).unwrap();
    assert_eq!(json(&configuration), json(&Configuration::default()));
    assert_eq!(configuration.server.listen.to_string(), "127.0.0.1:8080");
}

#[test]
fn the_environment_wins_over_the_file_and_the_command_line_over_both() {
    let text = "data_directory = \"file\"\n[server]\nlisten = \"127.0.0.1:1\"\nworkers = 1\n[[stomp]]\nname = \"a\"\n";
    let pairs = [
        ("FRESHET__SERVER__LISTEN", "127.0.0.1:2"),
        ("FRESHET__SERVER__WORKERS", "2"),
        ("FRESHET__LOG__FORMAT", "json"),
        ("FRESHET__DATA_DIRECTORY", "environment"),
        ("FRESHET__STOMP__0__LOGIN", "12345"),
        ("FRESHET__STOMP__0__PASSCODE", "true"),
        ("FRESHET__STOMP__0__TLS__ENABLED", "true"),
        ("FRESHET__STOMP__0__BROKERS", "['one:1', \"two:2\"]"),
        ("FRESHET__STOMP__1__NAME", "\"quoted\""),
        ("FRESHET__STOMP__1__CLIENT_ID", "other"),
        ("FRESHET__STOMP__1__TLS", "{ enabled = true, server_name = \"broker\" }"),
        ("FRESHET_INSTANCE", "no option"),
    ];
    let configuration = parse(text, &pairs).unwrap();
    assert_eq!(configuration.server.listen.to_string(), "127.0.0.1:2");
    assert_eq!(configuration.server.workers, 2);
    assert_eq!(configuration.log.format, LogFormat::Json);
    assert_eq!(configuration.data_directory, Path::new("environment"));
    let [first, second] = configuration.stomp.as_slice() else { panic!("not two subscriptions") };
    assert_eq!((first.name.as_str(), first.login.as_str(), first.passcode.expose()), ("a", "12345", "true"));
    assert_eq!(
        (first.tls.enabled, first.brokers.as_slice()),
        (true, &["one:1".to_owned(), "two:2".to_owned()][..])
    );
    assert_eq!((second.name.as_str(), second.tls.server_name.as_str()), ("quoted", "broker"));

    let overrides =
        Overrides { listen: Some("127.0.0.1:3".parse().unwrap()), data_directory: Some("option".into()) };
    let file = Some((Path::new("x.toml"), text));
    let configuration = config::parse(file, &variables(&pairs), &overrides).unwrap();
    assert_eq!(configuration.server.listen.to_string(), "127.0.0.1:3");
    assert_eq!(configuration.data_directory, Path::new("option"));
}

#[test]
fn an_option_of_the_command_line_is_named_as_the_place_of_its_problem() {
    let overrides = Overrides { listen: Some("0.0.0.0:0".parse().unwrap()), data_directory: None };
    let problems = config::parse(None, &[], &overrides).unwrap_err();
    assert_eq!(problems.as_slice()[0].place, Place::Option("--listen"));
    assert_eq!(problems.as_slice()[0].key, "server.listen");
    let allowed = variables(&[("FRESHET__SERVER__ALLOW_REMOTE", "true")]);
    assert!(config::parse(None, &allowed, &overrides).is_ok());
}

#[test]
fn items_of_a_list_come_in_the_order_of_their_numbers() {
    let names: Vec<(String, String)> = (0..11)
        .flat_map(|index| {
            ["NAME", "CLIENT_ID"]
                .map(|key| (format!("FRESHET__STOMP__{index}__{key}"), format!("subscription-{index}")))
        })
        .collect();
    let configuration = config::parse(None, &names, &Overrides::default()).unwrap();
    assert_eq!(configuration.stomp.len(), 11);
    assert_eq!(configuration.stomp[10].name, "subscription-10");
}

#[test]
fn a_secret_comes_from_a_file_or_a_variable_and_what_came_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    fs::write(path("unix"), "two words \n").unwrap();
    fs::write(path("windows"), "line\r\n").unwrap();
    fs::write(path("none"), "${PASSWORD}").unwrap();
    fs::write(path("two"), "line\n\n").unwrap();
    let directory = folder.path().to_string_lossy();
    let pairs = [("PASSWORD", "file:/x${PASSWORD}"), ("DIRECTORY", &*directory)];
    let passcode = |written: &str| {
        let text = format!("[[stomp]]\nvhost = 'file:/as-it-is'\npasscode = '{written}'\n");
        let configuration = parse(&text, &pairs).unwrap();
        assert_eq!(configuration.stomp[0].vhost, "file:/as-it-is");
        configuration.stomp[0].passcode.expose().to_owned()
    };
    assert_eq!(passcode("file:${DIRECTORY}/unix"), "two words ");
    assert_eq!(passcode("file:${DIRECTORY}/windows"), "line");
    assert_eq!(passcode("file:${DIRECTORY}/none"), "${PASSWORD}");
    assert_eq!(passcode("${PASSWORD}"), "file:/x${PASSWORD}");
    assert_eq!(passcode("a${PASSWORD}b$$${PASSWORD}c$"), "afile:/x${PASSWORD}b$${PASSWORD}c$");
    assert_eq!(passcode("$${PASSWORD}"), "${PASSWORD}");

    // A line break that stays is part of the secret, and STOMP cannot carry it.
    let two = format!("[[stomp]]\npasscode = 'file:{}'\n", path("two"));
    let problems = parse(&two, &pairs).unwrap_err();
    assert_eq!(problems.as_slice()[0].key, "stomp.0.passcode");

    fs::write(path("large"), "x".repeat(65_537)).unwrap();
    let large = format!("[[stomp]]\npasscode = 'file:{}'\n", path("large"));
    let expected = "x.toml:2:12: the file of the secret is larger than 65536 bytes";
    assert_eq!(parse(&large, &pairs).unwrap_err().to_string(), expected);
}

#[test]
fn no_way_of_printing_shows_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    fs::write(&file, CANARY).unwrap();
    let from_file = format!("file:{}", file.display());
    let sources: [(String, Vec<(&str, &str)>); 5] = [
        (format!("passcode = \"{CANARY}\""), vec![]),
        ("passcode = \"${CANARY}\"".into(), vec![("CANARY", CANARY)]),
        (format!("passcode = \"{from_file}\""), vec![]),
        (String::new(), vec![("FRESHET__STOMP__0__PASSCODE", CANARY)]),
        (String::new(), vec![("FRESHET__STOMP__0__PASSCODE", &from_file)]),
    ];
    // Each makes another step fail, with the secret in the configuration.
    let mistakes = [
        "",
        "brokers = [\"${PASSCODE}\"]",
        "flavour = \"${PASSCODE}\"",
        "prefetch = \"${PASSCODE}\"",
        "unknown = \"${PASSCODE}\"",
        "client_id = \"\"",
        "tls = \"${PASSCODE}\"",
        "vhost = \"${NOT_SET}${PASSCODE}\"",
        "login = ",
    ];
    for (source, pairs) in &sources {
        for mistake in mistakes {
            let text = format!("[[stomp]]\n{source}\n{mistake}\n");
            let mut pairs = pairs.clone();
            pairs.push(("PASSCODE", CANARY));
            let printed = match parse(&text, &pairs) {
                Ok(configuration) => {
                    assert_eq!(mistake, "");
                    assert_eq!(configuration.stomp[0].passcode.expose(), CANARY);
                    let toml = toml_edit::ser::to_string(&configuration).unwrap();
                    format!("{configuration:?} {configuration:#?} {} {toml}", json(&configuration))
                }
                Err(problems) => {
                    assert_ne!(mistake, "", "{problems}");
                    format!("{problems} {problems:?} {:?}", cli::Answer::bad_configuration(&problems))
                }
            };
            assert!(!printed.contains(CANARY), "{text}\n{printed}");
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_answered_without_its_secret() {
    let text = format!("[[stomp]]\r\npasscode = \"{CANARY}\"\npasscode2 = '{CANARY}'\nlogin = {CANARY}\n");
    for end in 0..=text.len() {
        let printed = match parse(&text[..end], &[]) {
            Ok(configuration) => format!("{configuration:?}"),
            Err(problems) => format!("{problems} {problems:?}"),
        };
        assert!(!printed.contains("canary"), "{printed}");
    }
}

#[test]
fn the_toml_reference_is_fresh() {
    let path = root().join("config/freshet.toml");
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == config::reference(), "run: cargo run -- reference > config/freshet.toml");
}

#[test]
fn the_markdown_reference_is_fresh() {
    let path = root().join("docs/configuration.md");
    let found = fs::read_to_string(&path).unwrap_or_default();
    let fresh = config::reference_markdown();
    assert!(found == fresh, "run: cargo run -- reference --markdown > docs/configuration.md");
}

#[test]
fn the_reference_without_its_marks_is_the_default() {
    let reference = config::reference();
    let mut options = 0;
    let uncommented: Vec<&str> = reference
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(option) if !option.is_empty() && !option.starts_with(' ') => {
                options += 1;
                option
            }
            _ => line,
        })
        .collect();
    assert!(options > 20, "{options}");
    let configuration = parse(&uncommented.join("\n"), &[]).unwrap();
    assert_eq!(json(&configuration), json(&Configuration::default()));
    assert_eq!(
        options,
        count_of_leaves(&json(&configuration)) - 2,
        "the lists of channels and of subscriptions are examples"
    );
}

#[test]
fn the_example_of_each_list_in_the_reference_is_good() {
    let reference = config::reference();
    for (list, expected) in [
        ("channel", json(&freshet_feed::channel::Config::default())),
        ("stomp", json(&freshet_stomp_subscriber::Config::default())),
    ] {
        let example: Vec<&str> = reference
            .lines()
            .skip_while(|line| *line != format!("# [[{list}]]"))
            .take_while(|line| line.starts_with('#'))
            .map(|line| line.strip_prefix("# ").unwrap_or(""))
            .collect();
        let configuration = json(&parse(&example.join("\n"), &[]).unwrap());
        assert_eq!(configuration[list], serde_json::json!([expected]));
        let lines = example.iter().filter(|line| !line.starts_with('#') && line.contains(" = ")).count();
        assert_eq!(lines, count_of_leaves(&expected), "{list}");
    }
}

fn json(value: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(value).expect("it is JSON")
}

fn count_of_leaves(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Object(map) => map.values().map(count_of_leaves).sum(),
        _ => 1,
    }
}

proptest::proptest! {
    #[test]
    fn no_text_and_no_variable_makes_it_panic(
        text in "(\\[\\[?(stomp|server|log)\\]?\\]\n)?([a-z_.]{1,8} ?= ?[\"'\\[{0-9a-z$}\\]]{0,8}\n?){0,4}\\PC{0,20}",
        name in "(STOMP|SERVER|LOG|_){0,2}__[A-Z0-9_]{0,12}",
        value in "\\PC{0,20}",
    ) {
        let name = format!("FRESHET__{name}");
        let found = parse(&text, &[(&name, &value)]);
        proptest::prop_assert!(found.is_ok_and(|configuration| configuration.problems().is_empty())
            || !parse(&text, &[(&name, &value)]).unwrap_err().as_slice().is_empty());
    }
}

#[test]
fn the_command_line_says_what_it_wants() {
    let parse = |line: &str| cli::parse(line.split(' '));
    let run = parse("freshet run --config x.toml --listen 127.0.0.1:0 --data /tmp/d").unwrap();
    let cli::Command::Run { config, common } = run.command else { panic!("not run") };
    assert_eq!(config.as_deref(), Some(Path::new("x.toml")));
    let overrides = Overrides::from(common);
    assert_eq!(overrides.listen, Some("127.0.0.1:0".parse().unwrap()));
    assert_eq!(overrides.data_directory.as_deref(), Some(Path::new("/tmp/d")));
    assert!(matches!(parse("freshet demo --listen [::1]:0").unwrap().command, cli::Command::Demo { .. }));
    assert!(matches!(parse("freshet check x.toml").unwrap().command, cli::Command::Check { .. }));

    for wrong in
        ["freshet", "freshet rum", "freshet check", "freshet run --listen here", "freshet demo --config x"]
    {
        let answer = parse(wrong).unwrap_err();
        assert_eq!((answer.code.number(), answer.output.as_str()), (64, ""), "{wrong}");
        assert!(!answer.error.is_empty(), "{wrong}");
    }
    let version = parse("freshet --version").unwrap_err();
    let expected = format!("freshet {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!((version.code, version.output), (ExitCode::Ok, expected));
    let help = parse("freshet --help").unwrap_err();
    assert_eq!(help.code, ExitCode::Ok);
    assert!(help.output.contains("demo") && !help.output.contains("reference"), "{}", help.output);
}
