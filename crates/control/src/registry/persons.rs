//! The persons of a home: who can answer for an agent, and whose word counts.
//!
//! A person is told by name, by identity and by key, and each of the three belongs to one person for good: also after that person was retired, so that
//! nobody comes to speak with the voice of somebody who left. The login user is a person from first use on, without a key until one is made.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ringfence_evidence::{PublicKey, SigningKey};
use ringfence_policy::{GroupName, PersonName};
use ringfence_store::{Documents, Home, RegistryLock, make_private_key, now, read_private_key};

use super::error::RegistryError;
use super::local::local_owner;
use super::login::Login;
use super::person::{Identity, Person, PersonState};

/// A person to be registered.
#[derive(Debug, Clone)]
pub struct NewPerson {
    /// The name.
    pub name: PersonName,
    /// Who that is elsewhere; the name, if it is not said.
    pub identity: Option<Identity>,
    /// The groups.
    pub groups: BTreeSet<GroupName>,
}

/// Where a person's key comes from.
#[derive(Debug, Clone)]
pub enum NewKey {
    /// It is made, and its private part kept in this file, which must not be there.
    Made(PathBuf),
    /// It is the person's own already.
    Given(PublicKey),
}

/// The persons of a home.
#[derive(Debug, Clone)]
pub struct Persons {
    home: Home,
    documents: Documents<Person>,
}

impl Persons {
    /// Those of a home.
    pub fn of(home: &Home) -> Self {
        Self { home: home.clone(), documents: Documents::of(home) }
    }

    /// The person of that name, active or not.
    pub fn find(&self, name: &PersonName) -> Result<Person, RegistryError> {
        self.documents.get(name.as_str())?.ok_or_else(|| RegistryError::NoPerson(name.clone()))
    }

    /// Every person, by name.
    pub fn all(&self) -> Result<Vec<Person>, RegistryError> {
        Ok(self.documents.all()?)
    }

    /// Whoever runs this, registered at first use.
    pub fn login_user(&self) -> Result<Person, RegistryError> {
        let login = Login::current()?;
        match self.called(&login)? {
            Some(person) => Ok(person),
            None => self.ensure(&RegistryLock::take(&self.home)?, login),
        }
    }

    /// Registers a person. For the login user, who is registered from first use on, this gives the key.
    pub fn add(&self, new: NewPerson, key: NewKey) -> Result<Person, RegistryError> {
        let lock = RegistryLock::take(&self.home)?;
        let mut person = self.to_be_added(new)?;
        let others = self.all()?.into_iter().filter(|other| other.name != person.name).collect::<Vec<_>>();
        if let Some(other) = others.iter().find(|other| other.identity == person.identity) {
            return Err(RegistryError::IdentityTaken { identity: person.identity, by: other.name.clone() });
        }
        let made = match key {
            NewKey::Given(key) => {
                person.key = Some(key);
                None
            }
            NewKey::Made(path) => {
                person.key = Some(make_private_key(&self.home, &path)?.public());
                Some(path)
            }
        };
        let taken = others.iter().find(|other| other.key.is_some() && other.key == person.key);
        let put = match taken {
            Some(other) => Err(RegistryError::KeyTaken { by: other.name.clone() }),
            None => self.documents.put(&lock, &person).map_err(RegistryError::from),
        };
        if let (Err(_), Some(path)) = (&put, made) {
            // The key of nobody is of no use; the error is what matters.
            std::fs::remove_file(path).unwrap_or_default();
        }
        put.map(|()| person)
    }

    /// A new record, or that of the login user as it is to be.
    fn to_be_added(&self, new: NewPerson) -> Result<Person, RegistryError> {
        let login = Login::current()?;
        let known = self.documents.get(new.name.as_str())?;
        let own = self.called(&login)?;
        let is_own = own.as_ref().map_or(new.name == login.name, |own| own.name == new.name);
        let identity = match (new.identity, &known) {
            (Some(identity), _) => identity,
            (None, Some(known)) => known.identity.clone(),
            (None, None) if is_own => login.identity,
            (None, None) => new.name.as_str().parse()?,
        };
        match known {
            Some(known) if !known.is_active() => Err(RegistryError::PersonRetired(known.name)),
            Some(known) if known.key.is_some() || !is_own => Err(RegistryError::PersonExists(known.name)),
            Some(known) => Ok(Person { identity, groups: known.groups.union(&new.groups).cloned().collect(), ..known }),
            None => Ok(fresh(new.name, identity, new.groups)),
        }
    }

    /// Puts a person into these groups and no others.
    pub fn set_groups(&self, name: &PersonName, groups: BTreeSet<GroupName>) -> Result<Person, RegistryError> {
        let lock = RegistryLock::take(&self.home)?;
        let person = self.find(name)?;
        if !person.is_active() {
            return Err(RegistryError::PersonRetired(person.name));
        }
        self.keep(&lock, Person { groups, ..person })
    }

    /// From now on the person's word does not count. To retire somebody twice changes nothing.
    pub fn retire(&self, name: &PersonName) -> Result<Person, RegistryError> {
        let lock = RegistryLock::take(&self.home)?;
        let person = self.find(name)?;
        let own = self.called(&Login::current()?)?.map(|own| own.name);
        if own.as_ref() == Some(name) || local_owner(&self.home)?.as_ref() == Some(name) {
            return Err(RegistryError::AnswersForLocal(person.name));
        }
        match person.is_active() {
            true => self.keep(&lock, Person { state: PersonState::Inactive, retired_at: Some(now()), ..person }),
            false => Ok(person),
        }
    }

    /// Reads a person's private key from the person's own file. The key must be the registered one: a file that was copied from somebody else signs for
    /// nobody.
    pub fn read_key(&self, path: &Path, person: &Person) -> Result<SigningKey, RegistryError> {
        let registered = person.key.as_ref().ok_or_else(|| RegistryError::NoKey(person.name.clone()))?;
        let key = read_private_key(path)?;
        let public = key.public();
        if public == *registered {
            return Ok(key);
        }
        let whose = self.all()?.into_iter().find(|other| other.key.as_ref() == Some(&public)).map(|other| other.name);
        Err(RegistryError::ForeignKey { path: path.to_owned(), person: person.name.clone(), whose })
    }

    /// The login user's record: the one with the identity, else the one of the name.
    fn called(&self, login: &Login) -> Result<Option<Person>, RegistryError> {
        let (by_identity, others): (Vec<Person>, Vec<Person>) = self.all()?.into_iter().partition(|p| p.identity == login.identity);
        Ok(by_identity.into_iter().chain(others.into_iter().filter(|p| p.name == login.name)).next())
    }

    /// Somebody whom a home knows without being told: as registered, or registered now.
    pub(super) fn ensure(&self, lock: &RegistryLock, login: Login) -> Result<Person, RegistryError> {
        match self.called(&login)? {
            Some(person) => Ok(person),
            None => self.keep(lock, fresh(login.name, login.identity, BTreeSet::new())),
        }
    }

    fn keep(&self, lock: &RegistryLock, person: Person) -> Result<Person, RegistryError> {
        self.documents.put(lock, &person)?;
        Ok(person)
    }
}

fn fresh(name: PersonName, identity: Identity, groups: BTreeSet<GroupName>) -> Person {
    Person { name, identity, groups, key: None, state: PersonState::Active, added_at: now(), retired_at: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place {
        folder: tempfile::TempDir,
        home: Home,
        persons: Persons,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let home = Home::open(&folder.path().join("home")).unwrap();
            Self { persons: Persons::of(&home), folder, home }
        }

        fn key(&self, name: &str) -> PathBuf {
            self.folder.path().join(format!("{name}.key"))
        }

        fn add(&self, name: &str, identity: Option<&str>) -> Result<Person, RegistryError> {
            let new =
                NewPerson { name: name.parse().unwrap(), identity: identity.map(|text| text.parse().unwrap()), groups: BTreeSet::new() };
            self.persons.add(new, NewKey::Made(self.key(name)))
        }
    }

    #[test]
    fn a_persons_key_is_theirs_and_its_copy_is_told() {
        let place = Place::new();
        let (anna, ben) = (place.add("anna-x", None).unwrap(), place.add("ben-x", None).unwrap());
        assert_eq!(place.persons.read_key(&place.key("anna-x"), &anna).unwrap().public(), anna.key.clone().unwrap());
        let copied = place.persons.read_key(&place.key("anna-x"), &ben).unwrap_err();
        assert!(copied.to_string().ends_with("person `ben-x`: it was copied from person `anna-x`"), "{copied}");
        make_private_key(&place.home, &place.key("stranger")).unwrap();
        let unknown = place.persons.read_key(&place.key("stranger"), &ben).unwrap_err();
        assert!(unknown.to_string().contains("no registered person has it") && !format!("{unknown:?}").contains("PRIVATE"));
        assert!(matches!(
            place.persons.read_key(&place.key("stranger"), &place.persons.login_user().unwrap()),
            Err(RegistryError::NoKey(_))
        ));
    }

    #[test]
    fn a_name_an_identity_and_a_key_belong_to_one_person_for_good() {
        let place = Place::new();
        let anna = place.add("anna-x", Some("Anna@example.com")).unwrap();
        place.persons.retire(&anna.name).unwrap();
        assert!(matches!(place.add("anna-x", None), Err(RegistryError::PersonRetired(_))));
        assert!(matches!(place.add("ben-x", Some("anna@EXAMPLE.com")), Err(RegistryError::IdentityTaken { .. })));
        assert!(!place.key("ben-x").exists());
        let new = NewPerson { name: "ben-x".parse().unwrap(), identity: None, groups: BTreeSet::new() };
        assert!(matches!(place.persons.add(new, NewKey::Given(anna.key.unwrap())), Err(RegistryError::KeyTaken { .. })));
        assert!(place.add("ben-x", None).is_ok());
        assert!(matches!(place.add("ben-x", None), Err(RegistryError::PersonExists(_))));
        assert_eq!(
            place.persons.all().unwrap().iter().map(|p| (p.name.as_str(), p.is_active())).collect::<Vec<_>>(),
            [("anna-x", false), ("ben-x", true)]
        );
    }

    #[test]
    fn the_login_user_is_a_person_from_first_use_and_gets_the_key_later() {
        let place = Place::new();
        let login = place.persons.login_user().unwrap();
        assert_eq!((login.key.is_none(), login.groups.len(), place.persons.all().unwrap().len()), (true, 0, 1));
        let with_key = place.add(login.name.as_str(), None).unwrap();
        assert_eq!(Person { key: None, ..with_key.clone() }, login);
        assert_eq!(place.persons.login_user().unwrap(), with_key);
        assert!(matches!(place.add(login.name.as_str(), None), Err(RegistryError::PersonExists(_))));
        assert!(matches!(place.persons.retire(&login.name), Err(RegistryError::AnswersForLocal(_))));
    }

    #[test]
    fn who_registers_as_the_login_user_first_is_the_login_user() {
        let place = Place::new();
        let login = Login::current().unwrap();
        let added = place.add(login.name.as_str(), Some("me@example.com")).unwrap();
        assert_eq!(place.persons.login_user().unwrap(), added);
    }
}
