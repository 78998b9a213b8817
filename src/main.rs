//! `freshet`: reads the command line and does what it says.

use std::process;

use freshet::cli::{self, Cli, Command};
use freshet::config::Overrides;
use freshet::exit_code::ExitCode;
use freshet::run::{self, Feed};

fn main() -> process::ExitCode {
    let variables = cli::environment();
    let code: ExitCode = match cli::parse(std::env::args_os()) {
        Err(answer) => answer.print(),
        Ok(Cli { command }) => match command {
            Command::Run { config, common } => {
                run::run(config.as_deref(), &Overrides::from(common), &variables, Feed::Configured)
            }
            Command::Demo { common } => {
                let mut overrides = Overrides::from(common);
                overrides.data_directory.get_or_insert_with(|| "data/demo".into());
                run::run(None, &overrides, &variables, Feed::Demo)
            }
            Command::Check { file } => cli::check(&file, &variables).print(),
            Command::Reference { markdown } => cli::reference(markdown).print(),
        },
    };
    code.into()
}
