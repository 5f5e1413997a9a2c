//! A subscriber that keeps what it is told as lines.

use std::{
    fmt::{self, Write},
    sync::{Arc, Mutex},
};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Id, Record},
    subscriber::DefaultGuard,
};
use tracing_subscriber::{Layer, Registry, layer::Context, prelude::*};

type Interruption = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Pages {
    lines: Mutex<Vec<String>>,
    interruption: Mutex<Option<Arc<Interruption>>>,
}

/// Keeps the fields that are recorded on spans, one a line, and events.
#[derive(Clone, Default)]
pub(crate) struct Journal(Arc<Pages>);

impl Journal {
    /// Has this thread's spans and events come here.
    pub(crate) fn read(&self) -> DefaultGuard {
        Registry::default().with(self.clone()).set_default()
    }

    /// What it was told since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lines.lock().unwrap())
    }

    /// Runs whenever it is told something.
    pub(crate) fn interrupt(&self, interruption: impl Fn() + Send + Sync + 'static) {
        *self.0.interruption.lock().unwrap() = Some(Arc::new(Box::new(interruption)));
    }

    fn write(&self, line: String) {
        let interruption = self.0.interruption.lock().unwrap().clone();
        if let Some(interrupt) = interruption {
            interrupt();
        }
        self.0.lines.lock().unwrap().push(line);
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    rest: Vec<String>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.rest.push(format!("{}={value}", field.name()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            write!(self.message, "{value:?}").unwrap();
        } else {
            self.rest.push(format!("{}={value:?}", field.name()));
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.rest.push(format!("{}={value}", field.name()));
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        for field in fields.rest {
            self.write(format!("span {field}"));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let mut line = format!(
            "{} {} {}",
            metadata.level(),
            metadata.target(),
            fields.message
        );
        for field in fields.rest {
            line = format!("{line} {field}");
        }
        self.write(line);
    }
}
