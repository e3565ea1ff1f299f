//! Reading JSON with messages that say which key is wrong.

use super::archive::quote;
use serde_json::{Map, Value};

/// An object, and where it stands.
pub(super) struct Object<'a> {
    pub map: &'a Map<String, Value>,
    pub at: String,
}

impl<'a> Object<'a> {
    pub fn new(value: &'a Value, at: String) -> Result<Self, String> {
        match value {
            Value::Object(map) => Ok(Object { map, at }),
            other => Err(format!("{at} must be an object, found {}", kind(other))),
        }
    }

    /// A key that may be absent, or null.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    pub fn need(&self, key: &str) -> Result<&'a Value, String> {
        self.get(key).ok_or_else(|| format!("{} has no key `{key}`", self.at))
    }

    pub fn wrong<T>(&self, key: &str, must: &str, found: &Value) -> Result<T, String> {
        Err(format!("{}: `{key}` must be {must}, found {}", self.at, kind(found)))
    }

    pub fn count(&self, key: &str) -> Result<usize, String> {
        let value = self.need(key)?;
        match value.as_u64().and_then(|n| usize::try_from(n).ok()) {
            Some(n) => Ok(n),
            None => self.wrong(key, "a whole number", value),
        }
    }

    pub fn number(&self, key: &str) -> Result<f64, String> {
        let value = self.need(key)?;
        value.as_f64().map_or_else(|| self.wrong(key, "a number", value), Ok)
    }

    pub fn text(&self, key: &str) -> Result<&'a str, String> {
        let value = self.need(key)?;
        value.as_str().map_or_else(|| self.wrong(key, "a string", value), Ok)
    }

    pub fn list(&self, key: &str) -> Result<&'a [Value], String> {
        let value = self.need(key)?;
        value.as_array().map_or_else(|| self.wrong(key, "a list", value), |list| Ok(&list[..]))
    }

    /// A flag that is false when absent.
    pub fn flag(&self, key: &str) -> Result<bool, String> {
        match self.get(key) {
            None => Ok(false),
            Some(value) => value.as_bool().map_or_else(|| self.wrong(key, "true or false", value), Ok),
        }
    }

    pub fn numbers(&self, key: &str) -> Result<Vec<f64>, String> {
        let wrong = |value| self.wrong(key, "a list of numbers", value);
        self.list(key)?.iter().map(|value| value.as_f64().map_or_else(|| wrong(value), Ok)).collect()
    }

    pub fn texts(&self, key: &str) -> Result<Vec<String>, String> {
        let wrong = |value| self.wrong(key, "a list of strings", value);
        self.list(key)?
            .iter()
            .map(|value| value.as_str().map_or_else(|| wrong(value), |s| Ok(s.to_owned())))
            .collect()
    }

    /// Refuses keys that are not understood: they could change what is computed.
    pub fn only(&self, known: &[&str]) -> Result<(), String> {
        match self.map.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => {
                Err(format!("{}: unknown key {}; known are {}", self.at, quote(key), known.join(", ")))
            }
            None => Ok(()),
        }
    }
}

/// What a JSON value is, in words; numbers and short strings as they are.
fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(s) => format!("the string {}", quote(s)),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}
