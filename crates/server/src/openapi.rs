//! The description of the API, made from the code that answers: paths from the routes, forms from the types, and what holds for all of them added here.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use utoipa::openapi::{InfoBuilder, OpenApi, OpenApiBuilder};

use crate::problem::{Code, ProblemBody};
use crate::routes;

/// The forms of names in paths and queries, by the name of the parameter.
const FORMS: &[(&str, &str)] = &[
    ("run", RUN),
    ("session", RUN),
    ("command", "^[0-9]{1,10}$"),
    ("context", "^[0-9a-z-]{1,64}$"),
    ("before", RUN),
    ("promotion", RUN),
    ("approval", RUN),
    ("digest", "^sha256:[0-9a-f]{64}$"),
    ("profile", "^[a-z0-9][a-z0-9-]{0,63}$"),
    ("agent", "^[a-z0-9][a-z0-9._-]{0,63}$"),
];
const RUN: &str = "^[0-9a-hjkmnp-tv-z]{26}$";

/// What can go wrong with every request that needs a key.
const ALWAYS: &[Code] =
    &[Code::BadRequest, Code::Unauthorized, Code::ForeignOrigin, Code::WrongHost, Code::TooManyWrongKeys, Code::Internal, Code::Overloaded];
/// What can go wrong with every request that needs none.
const OPEN: &[Code] = &[Code::BadRequest, Code::ForeignOrigin, Code::WrongHost, Code::Overloaded];
/// What can go wrong with every request that changes something.
const POSTED: &[Code] = &[Code::BodyTooSlow, Code::Conflict, Code::BodyTooLarge, Code::UnsupportedMediaType, Code::InvalidRequest];

/// Where the description begins.
pub(crate) fn frame() -> OpenApi {
    let info = InfoBuilder::new().title("ringfence").version(ringfence_control::VERSION).description(Some(
        "Runs model-written code in a smaller computer: an isolated, throw-away workspace with declared capabilities and a sealed record.",
    ));
    OpenApiBuilder::new().info(info.build()).build()
}

/// The description of the API: OpenAPI 3.1, as JSON.
pub fn openapi() -> String {
    let described = routes::all().split_for_parts().1;
    let mut document = serde_json::to_value(&described).unwrap_or_default();
    document["openapi"] = json!("3.1.0");
    document["security"] = json!([{ "key": [] }]);
    document["components"] = json!({
        "schemas": schemas(),
        "responses": responses(),
        "securitySchemes": { "key": { "type": "http", "scheme": "bearer", "description": "`rf_` and 64 digits: `ringfence key add`" } },
    });
    for (path, methods) in document["paths"].as_object_mut().into_iter().flatten() {
        let has_name = path.contains('{');
        // It can end at any moment.
        let more = if path.contains("{session}") { [Code::Conflict].as_slice() } else { &[] };
        for (method, operation) in methods.as_object_mut().into_iter().flatten() {
            complete(operation, method == "post", has_name, more);
        }
    }
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}

/// Adds to an operation what holds for all of its kind.
fn complete(operation: &mut Value, is_post: bool, has_name: bool, more: &[Code]) {
    let is_open = operation["security"].as_array().is_some_and(|ways| ways.iter().any(|way| way.as_object().is_some_and(Map::is_empty)));
    let always = if is_open { OPEN } else { ALWAYS };
    let named = if has_name { [Code::NotFound].as_slice() } else { &[] };
    let posted = if is_post { POSTED } else { &[] };
    for (status, response) in operation["responses"].as_object_mut().into_iter().flatten().filter(|(status, _)| status.starts_with('4')) {
        *response = json!({ "$ref": format!("#/components/responses/{status}") });
    }
    for code in always.iter().chain(named).chain(posted).chain(more) {
        let status = code.status().as_u16().to_string();
        operation["responses"][&status] = json!({ "$ref": format!("#/components/responses/{status}") });
    }
    if is_post {
        let key = json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "A word for this request: asked again with it within a day, the request is not done twice",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]{1,255}$" },
        });
        match operation["parameters"].as_array_mut() {
            Some(parameters) => parameters.push(key),
            None => operation["parameters"] = json!([key]),
        }
    }
    operation["parameters"].as_array_mut().into_iter().flatten().for_each(bound);
    if operation["parameters"].is_null()
        && let Some(operation) = operation.as_object_mut()
    {
        operation.remove("parameters");
    }
    if let Some(body) = operation.get_mut("requestBody") {
        body["required"] = json!(true);
    }
}

/// The form of a parameter: what is left out is not sent as null.
fn bound(parameter: &mut Value) {
    if let Some(kinds) = parameter["schema"]["type"].as_array() {
        parameter["schema"]["type"] = kinds.iter().find(|kind| *kind != "null").cloned().unwrap_or_default();
    }
    let name = parameter["name"].as_str().unwrap_or_default().to_owned();
    if let Some((_, form)) = FORMS.iter().find(|(named, _)| *named == name) {
        parameter["schema"]["pattern"] = json!(form);
    }
    // What is kept is named by an id, and runs are listed by how they are.
    match (name.as_str(), parameter["in"].as_str()) {
        ("state", Some("path")) => parameter["schema"]["pattern"] = json!(RUN),
        ("state", _) => parameter["schema"]["enum"] = json!(routes::RUN_STATES),
        _ => {}
    }
}

/// What is told when something is wrong, by its status.
fn responses() -> Value {
    let mut responses = Map::new();
    for code in Code::ALL {
        let status = code.status().as_u16().to_string();
        let line = format!("`{}`: {}", code.word(), code.title());
        let response = responses.entry(status).or_insert_with(|| {
            json!({
                "description": "",
                "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
            })
        });
        let before = response["description"].as_str().unwrap_or_default();
        response["description"] = json!(if before.is_empty() { line } else { format!("{before}; {line}") });
    }
    Value::Object(responses)
}

/// The forms of all bodies.
fn schemas() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    // What is sent and what is answered differ in what must be there.
    let mut answered = Schemas(settings.clone().for_serialize().into_generator(), Map::new());
    let mut sent = Schemas(settings.for_deserialize().into_generator(), Map::new());
    routes::answered(&mut answered);
    answered.add::<ProblemBody>("Problem");
    routes::sent(&mut sent);
    let mut all = answered.finish();
    all.extend(sent.finish());
    all.insert("Description".into(), json!({ "type": "object", "description": "This document.", "required": ["openapi"] }));
    Value::Object(all)
}

/// Forms by name, with all that they refer to.
pub(crate) struct Schemas(SchemaGenerator, Map<String, Value>);

impl Schemas {
    /// Adds the form of a type under a name.
    pub(crate) fn add<T: JsonSchema>(&mut self, name: &str) {
        let mut schema = T::json_schema(&mut self.0);
        schema.remove("title");
        self.1.insert(name.to_owned(), schema.into());
    }

    fn finish(mut self) -> Map<String, Value> {
        let mut all = self.0.take_definitions(true);
        all.extend(self.1);
        all
    }
}
