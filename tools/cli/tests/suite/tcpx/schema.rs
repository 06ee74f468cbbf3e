//! Check of a value against a JSON Schema. It knows the words that docs/json.schema.json uses, and
//! takes no others.

use serde_json::{Map, Value};

/// What is wrong with `value`, and where; nothing if it is what the definition of this name says.
pub(crate) fn check(schema: &Value, definition: &str, value: &Value) -> Result<(), String> {
    let part = &schema["$defs"][definition];
    assert!(part.is_object(), "{definition} is not defined");
    conforms(schema, part, value).map_err(|error| format!("{definition}{error}"))
}

fn conforms(schema: &Value, part: &Value, value: &Value) -> Result<(), String> {
    for (word, wanted) in part.as_object().expect("an object") {
        match word.as_str() {
            "$ref" => {
                let name = wanted.as_str().and_then(|it| it.strip_prefix("#/$defs/"));
                let name = name.expect("a definition");
                let target = schema["$defs"].get(name);
                conforms(schema, target.unwrap_or_else(|| panic!("no {name}")), value)?;
            }
            "type" => is_of_type(wanted, value)?,
            "enum" => is_one_of(wanted.as_array().expect("values"), value)?,
            "const" => is_one_of(std::slice::from_ref(wanted), value)?,
            "minimum" => {
                if value.as_f64().is_some_and(|it| it < wanted.as_f64().expect("a number")) {
                    return Err(format!(": {value} is less than {wanted}"));
                }
            }
            "pattern" => {
                assert_eq!(wanted, "^[0-9]+$", "the only pattern that is known here");
                let text = value.as_str().unwrap_or_default();
                if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(format!(": {value} is no number"));
                }
            }
            "anyOf" => {
                let choices = wanted.as_array().expect("choices").iter();
                let errors: Vec<String> =
                    choices.map_while(|choice| conforms(schema, choice, value).err()).collect();
                if errors.len() == wanted.as_array().map_or(0, Vec::len) {
                    return Err(format!(": none of: {}", errors.join("; ")));
                }
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    let at = |error| format!("[{index}]{error}");
                    conforms(schema, wanted, item).map_err(at)?;
                }
            }
            "properties" | "required" | "additionalProperties" => {}
            other => panic!("{other}: not known here"),
        }
    }
    value.as_object().map_or(Ok(()), |object| members_conform(schema, part, object))
}

fn members_conform(
    schema: &Value,
    part: &Value,
    object: &Map<String, Value>,
) -> Result<(), String> {
    for name in part["required"].as_array().into_iter().flatten() {
        let name = name.as_str().expect("a name");
        if !object.contains_key(name) {
            return Err(format!(": {name} is missing"));
        }
    }
    for (name, member) in object {
        let known = part["properties"].get(name);
        let Some(of) = known.or_else(|| part.get("additionalProperties")) else { continue };
        match of {
            Value::Bool(false) => return Err(format!(": {name} is not in the schema")),
            Value::Bool(true) => {}
            of => conforms(schema, of, member).map_err(|error| format!(".{name}{error}"))?,
        }
    }
    Ok(())
}

fn is_of_type(wanted: &Value, value: &Value) -> Result<(), String> {
    let is = |name: &Value| match name.as_str().expect("a type's name") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("{other} is no type"),
    };
    let names = wanted.as_array().map_or(std::slice::from_ref(wanted), Vec::as_slice);
    if names.iter().any(is) { Ok(()) } else { Err(format!(": {value} is no {wanted}")) }
}

fn is_one_of(wanted: &[Value], value: &Value) -> Result<(), String> {
    if wanted.contains(value) { Ok(()) } else { Err(format!(": {value} is none of {wanted:?}")) }
}
