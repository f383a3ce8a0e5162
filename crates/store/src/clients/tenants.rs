//! Tenants: a name, and the agents that may be used under it.

use sqlx::{Row, Sqlite, Transaction};

use super::{Clients, millis};
use crate::error::StoreError;

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TenantRow {
    /// Its name.
    pub name: String,
    /// The agents that it may use; the first one is meant where none is named.
    pub agents: Vec<String>,
    /// When it was added, milliseconds since 1970.
    pub made_at: i64,
}

impl Clients {
    /// Adds a tenant with its agents. False if there is one of that name.
    pub fn add_tenant(&mut self, name: &str, agents: &[String]) -> Result<bool, StoreError> {
        self.step(async |transaction| {
            let query = sqlx::query("INSERT OR IGNORE INTO tenants VALUES (?, ?)").bind(name).bind(millis());
            let is_new = query.execute(&mut **transaction).await?.rows_affected() == 1;
            for (position, agent) in agents.iter().enumerate().filter(|_| is_new) {
                sqlx::query("INSERT OR IGNORE INTO tenant_agents VALUES (?, ?, ?)")
                    .bind(name)
                    .bind(i64::try_from(position).unwrap_or(i64::MAX))
                    .bind(agent)
                    .execute(&mut **transaction)
                    .await?;
            }
            Ok(is_new)
        })
    }

    /// Every tenant, by name.
    pub fn tenants(&mut self) -> Result<Vec<TenantRow>, StoreError> {
        self.step(async |transaction| {
            let rows = sqlx::query("SELECT name, made_at FROM tenants ORDER BY name").fetch_all(&mut **transaction).await?;
            let mut tenants = Vec::new();
            for row in rows {
                let name: String = row.get("name");
                tenants.push(TenantRow { agents: agents_of(transaction, &name).await?, made_at: row.get("made_at"), name });
            }
            Ok(tenants)
        })
    }
}

/// The agents of a tenant, in their order.
async fn agents_of(transaction: &mut Transaction<'_, Sqlite>, tenant: &str) -> Result<Vec<String>, sqlx::Error> {
    let query = sqlx::query("SELECT agent FROM tenant_agents WHERE tenant = ? ORDER BY position").bind(tenant);
    Ok(query.fetch_all(&mut **transaction).await?.iter().map(|row| row.get("agent")).collect())
}
