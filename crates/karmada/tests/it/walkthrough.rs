//! First use, as people write it down: `karmadactl` and kubectl against `karmada up`, word for word what the acceptance
//! cases of the command line and the stories of users say.

mod beside_kubectl;
mod explanation;
mod flags;
mod kind;
mod manners;
mod members;
mod shell;
mod stories;
