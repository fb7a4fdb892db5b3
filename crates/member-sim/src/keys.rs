//! The keys of the server, lent to controllers that issue tokens and certificates.

use std::error::Error;
use std::sync::Arc;

use jiff::SignedDuration;
use karmada_apimachinery::Value;
use karmada_apiserver::auth::token::{self, TokenIssuer, TokenSigner as _};
use karmada_apiserver::auth::{Authorizer, csr};
use karmada_apiserver::pki::Pki;
use karmada_kube_controllers::{Account, Keys, Signing};
use karmada_runtime::Clock;

/// The longest a signed client certificate lives.
const LONGEST: SignedDuration = SignedDuration::from_hours(365 * 24);

/// Signs on behalf of the controllers, for a control plane as well as for a simulated member.
pub struct Keyring {
    pub pki: Arc<Pki>,
    pub tokens: Arc<TokenIssuer>,
    pub authorizer: Arc<dyn Authorizer>,
    pub clock: Clock,
}

impl Keys for Keyring {
    fn root_ca(&self) -> String {
        self.pki.authority().certificate_pem()
    }

    fn legacy_token(&self, account: Account<'_>, secret: &str) -> Option<String> {
        let account =
            token::Account { namespace: account.namespace, name: account.name, uid: account.uid };
        self.tokens.legacy_token(&account, secret)
    }

    fn sign(&self, csr: &Value) -> Result<Signing, Box<dyn Error + Send + Sync>> {
        let signed = csr::sign(csr, &self.pki.authority(), LONGEST, self.clock.now())?;
        Ok(match signed {
            csr::Signing::NotDue => Signing::NotDue,
            csr::Signing::Issued(certificate) => Signing::Issued(certificate),
            csr::Signing::Refused { reason, message } => {
                Signing::Refused { reason: reason.to_owned(), message }
            }
        })
    }

    fn auto_approval(&self, csr: &Value) -> Option<String> {
        csr::auto_approval(csr, &*self.authorizer).map(str::to_owned)
    }
}
