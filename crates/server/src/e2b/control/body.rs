//! A JSON body, with errors in the form of E2B.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};

use crate::asked::{Asked, Wanted};
use crate::e2b::error::E2bError;
use crate::serving::Serving;

/// What a request says.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) Asked<T>);

impl<T: Wanted> FromRequest<Arc<Serving>> for Body<T> {
    type Rejection = E2bError;

    async fn from_request(request: Request, serving: &Arc<Serving>) -> Result<Self, E2bError> {
        // Some clients send an empty body without a type.
        let asked = Asked::from_request(request, serving).await;
        asked.map(Self).map_err(E2bError::from)
    }
}
