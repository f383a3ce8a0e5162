//! Texts, lists and tables of a client that are no longer than was said: what is longer is refused while it is read, not kept first.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A text of at most `MOST` characters, and at least `LEAST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text<const LEAST: usize, const MOST: usize>(pub(crate) String);

impl<'de, const LEAST: usize, const MOST: usize> Deserialize<'de> for Text<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match (LEAST..=MOST).contains(&text.chars().count()) {
            true => Ok(Self(text)),
            false => Err(D::Error::custom(format!("a text must have {LEAST} to {MOST} characters"))),
        }
    }
}

impl<const LEAST: usize, const MOST: usize> JsonSchema for Text<LEAST, MOST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Text{LEAST}To{MOST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": LEAST, "maxLength": MOST })
    }
}

/// A list of at most `MOST` things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Few<T, const MOST: usize>(pub(crate) Vec<T>);

impl<T, const MOST: usize> Default for Few<T, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Few<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FewVisitor(PhantomData))
    }
}

struct FewVisitor<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for FewVisitor<T, MOST> {
    type Value = Few<T, MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MOST}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut few = Vec::new();
        while let Some(one) = list.next_element()? {
            if few.len() == MOST {
                return Err(A::Error::custom(format!("a list has more than {MOST}")));
            }
            few.push(one);
        }
        Ok(Few(few))
    }
}

impl<T: JsonSchema, const MOST: usize> JsonSchema for Few<T, MOST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}UpTo{MOST}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": generator.subschema_for::<T>(), "maxItems": MOST })
    }
}

/// A table of at most `MOST` texts by name; a name that stands twice is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table<T, const MOST: usize>(pub(crate) Vec<(String, T)>);

impl<T, const MOST: usize> Default for Table<T, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Table<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TableVisitor(PhantomData))
    }
}

struct TableVisitor<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for TableVisitor<T, MOST> {
    type Value = Table<T, MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object of at most {MOST} names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut table: Vec<(String, T)> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if table.len() == MOST {
                return Err(A::Error::custom(format!("an object has more than {MOST} names")));
            }
            if table.iter().any(|(taken, _)| *taken == name) {
                return Err(A::Error::custom("an object has a name twice"));
            }
            table.push((name, map.next_value()?));
        }
        Ok(Table(table))
    }
}

impl<T: JsonSchema, const MOST: usize> JsonSchema for Table<T, MOST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}ByNameUpTo{MOST}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": generator.subschema_for::<T>(), "maxProperties": MOST })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_is_refused_while_it_is_read() {
        assert_eq!(serde_json::from_str::<Text<1, 2>>("\"äb\"").unwrap().0, "äb");
        for text in ["\"\"", "\"abc\"", "1"] {
            assert!(serde_json::from_str::<Text<1, 2>>(text).is_err(), "{text}");
        }
        assert_eq!(serde_json::from_str::<Few<u8, 2>>("[1,2]").unwrap().0, [1, 2]);
        assert!(serde_json::from_str::<Few<u8, 2>>("[1,2,3]").is_err());
        assert_eq!(serde_json::from_str::<Table<u8, 1>>("{\"a\":1}").unwrap().0, [("a".to_owned(), 1)]);
        for text in ["{\"a\":1,\"b\":2}", "{\"a\":1,\"a\":2}"] {
            assert!(serde_json::from_str::<Table<u8, 2>>(text).is_ok() == text.contains('b'), "{text}");
        }
        assert!(serde_json::from_str::<Table<u8, 1>>("{\"a\":1,\"b\":2}").is_err());
    }
}
