//! The lines of an execution as the clients of the E2B code interpreter read them: one JSON object a line.

use serde::Serialize;

use super::{CellEvent, CellResult};

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the wire's")]
pub enum Line {
    NumberOfExecutions {
        execution_count: u64,
    },
    /// `timestamp` is RFC 3339 in UTC.
    Stdout {
        text: String,
        timestamp: String,
    },
    Stderr {
        text: String,
        timestamp: String,
    },
    Result(Box<CellResult>),
    Error {
        name: String,
        value: String,
        traceback: String,
    },
    /// Said every few seconds when nothing else is.
    Keepalive,
    EndOfExecution,
}

impl Line {
    /// The line of an event at a time in RFC 3339. That output was left out is said on standard error: the format has no word for it.
    pub fn of(event: CellEvent, timestamp: &str) -> Self {
        let timestamp = timestamp.to_owned();
        match event {
            CellEvent::Started { execution_count } => Self::NumberOfExecutions { execution_count },
            CellEvent::Stdout { text } => Self::Stdout { text, timestamp },
            CellEvent::Stderr { text } => Self::Stderr { text, timestamp },
            CellEvent::Result(result) => Self::Result(result),
            CellEvent::Error { name, value, traceback } => Self::Error { name, value, traceback },
            CellEvent::Truncated { limit_bytes } => {
                let text = format!("[ringfence: the cell sent more than {limit_bytes} bytes; the rest is left out]\n");
                Self::Stderr { text, timestamp }
            }
            CellEvent::Ended => Self::EndOfExecution,
        }
    }

    /// The line with its newline; an error only where memory ends.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(line: &Line) -> String {
        String::from_utf8(line.to_bytes().unwrap()).unwrap()
    }

    #[test]
    fn each_event_has_its_line() {
        let text = || "x\n".to_owned();
        let error = CellEvent::Error { name: "E".to_owned(), value: "v".to_owned(), traceback: "t".to_owned() };
        let result = CellResult { text: Some("1".to_owned()), is_main_result: true, ..CellResult::default() };
        let expected = [
            (CellEvent::Started { execution_count: 3 }, r#"{"type":"number_of_executions","execution_count":3}"#),
            (CellEvent::Stdout { text: text() }, r#"{"type":"stdout","text":"x\n","timestamp":"T"}"#),
            (CellEvent::Stderr { text: text() }, r#"{"type":"stderr","text":"x\n","timestamp":"T"}"#),
            (CellEvent::Result(Box::new(result)), r#"{"type":"result","text":"1","is_main_result":true}"#),
            (error, r#"{"type":"error","name":"E","value":"v","traceback":"t"}"#),
            (CellEvent::Ended, r#"{"type":"end_of_execution"}"#),
        ];
        for (event, line) in expected {
            assert_eq!(written(&Line::of(event, "T")), format!("{line}\n"));
        }
        assert_eq!(written(&Line::Keepalive), "{\"type\":\"keepalive\"}\n");
    }

    #[test]
    fn what_is_left_out_is_said() {
        let Line::Stderr { text, .. } = Line::of(CellEvent::Truncated { limit_bytes: 5 }, "T") else { panic!("not on standard error") };
        assert_eq!(text, "[ringfence: the cell sent more than 5 bytes; the rest is left out]\n");
    }
}
