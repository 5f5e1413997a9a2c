//! The command line.

use std::path::PathBuf;

pub(super) const USAGE: &str = "\
usage: policy_check POLICY [--requests LOG] [--max-cost TOKENS]

  POLICY               the policy, a YAML file
  --requests LOG       replay these requests, one JSON object per line
  --max-cost TOKENS    how many uncached tokens the largest request has
";

/// What was asked for.
#[derive(Debug)]
pub(super) struct Args {
    pub(super) policy: PathBuf,
    pub(super) requests: Option<PathBuf>,
    /// In tokens.
    pub(super) max_cost: Option<u64>,
}

impl Args {
    /// `None` if help was asked for.
    pub(super) fn parse(args: impl IntoIterator<Item = String>) -> Result<Option<Self>, String> {
        let mut args = args.into_iter();
        let (mut policy, mut requests, mut max_cost) = (None, None, None);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value\n\n{USAGE}"));
            match &*arg {
                "-h" | "--help" => return Ok(None),
                "--requests" => requests = Some(value()?.into()),
                "--max-cost" => {
                    let tokens = value()?.parse().ok().filter(|&tokens| tokens > 0);
                    max_cost = Some(
                        tokens.ok_or("--max-cost must be a whole number of tokens, at least 1")?,
                    );
                }
                option if option.starts_with('-') => {
                    return Err(format!("unknown option {option}\n\n{USAGE}"));
                }
                _ if policy.is_some() => {
                    return Err(format!("unexpected argument {arg}\n\n{USAGE}"));
                }
                _ => policy = Some(arg.into()),
            }
        }
        let policy = policy.ok_or(USAGE)?;
        Ok(Some(Self {
            policy,
            requests,
            max_cost,
        }))
    }
}
