import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for profiles. */
export default {
  profiles: 'Profile',
  profile: 'Profil',
  chooseAProfile: 'Profil auswählen',
  chooseProfile: 'Wählen Sie ein Profil aus.',
  missing: 'Dieses Profil existiert nicht.',
  grantsMore: 'Sie können nicht mehr Rechte vergeben, als Ihr eigenes Profil hat: {grants}',
  // List
  rows: 'Profile',
  name: 'Name',
  grants: 'Rechte',
  kind: 'Art',
  builtIn: 'vordefiniert',
  custom: 'benutzerdefiniert',
  none: 'Ein Profil legt fest, was seine Mitglieder und Schlüssel tun können.',
  // Descriptions of grants
  everything: 'Alles',
  events: 'Ereignisse',
  members: 'Mitglieder',
  fields: 'Felder',
  onAll: '{action} (alle)',
  inScopes: '{action} ({scopes})',
  or: 'oder',
  nothingYet: 'noch nichts',
  onEverything: '{actions} auf alles',
  nothing: 'nichts',
  // Matrix
  allObjects: 'alles',
  allObjectsRow: 'alles, auch künftige Ressourcen',
  eventsRow: 'events: Abonnements von Änderungen (nicht in „alles“ enthalten)',
  membersRow: 'members: Namen und E-Mail-Adressen (nicht in „alles“ enthalten)',
  onlyScope: '{object}, nur {scope}',
  grant: '{profile}: {action} auf {object}',
  impliedGrant: '{profile}: {action} auf {object}, durch „alles“ erlaubt',
  grantsFor: 'Rechte von {profile}',
  matrixIntro:
    'Wählen Sie die Aktionen aus, die Mitglieder und Schlüssel mit diesem Profil ausführen können. Ein Häkchen in der ersten Zeile gilt für alle Zeilen.',
  scopesIntro:
    'Eine Zeile mit „nur“ beschränkt Aktionen auf die Datensätze eines Bereichs. Mehrere Bereiche derselben Aktion addieren sich.',
  invalidGrants:
    'Diese Rechte beziehen sich auf etwas, das nicht existiert. Sie erlauben daher nichts und werden beim Speichern entfernt: {grants}.',
  // Pages
  viewAsThis: 'Datensätze mit diesem Profil ansehen',
  viewAs: 'Datensätze mit dem Profil {name} ansehen',
  viewAsQuestion: 'Datensätze mit dem Profil {name} ansehen?',
  viewAsConsequence:
    'Die Seiten der Datensätze zeigen nur, was dieses Profil auflisten und lesen darf, bis Sie „Beenden“ auswählen oder sich abmelden. Änderungen sind dort nicht möglich. In Bereichen steht „me“ für Sie und „my_team“ für Ihre Teams. Die Seite „Aktivität“ zeigt, dass Sie Datensätze mit diesem Profil angesehen haben.',
  viewRecords: 'Datensätze ansehen',
  listsNothing: 'Dieses Profil darf keine Datensätze auflisten.',
  builtInIntro: 'Dieses Profil ist vordefiniert und kann nicht geändert werden.',
  create: 'Profil anlegen',
  createAProfile: 'Profil anlegen',
  nameHelp: 'Ein neues Profil hat keine Rechte. Sie fügen sie im nächsten Schritt hinzu.',
  created: '{} angelegt. Wählen Sie die Rechte aus.',
  nameTaken: 'Ein Profil mit dem Namen „{name}“ existiert bereits.',
  change: 'Ändern',
  changeName: '{name} ändern',
  save: 'Profil speichern',
  changed: '{} geändert.',
  unchangeable: 'Das Profil „{name}“ kann nicht geändert werden.',
  tooManyGrants: 'Zu viele Rechte.',
  delete: 'Löschen',
  deleteName: '{name} löschen',
  deleteQuestion: '{name} löschen?',
  deleteConsequence:
    'Ein Profil kann nur gelöscht werden, wenn kein Mitglied, kein aktiver Schlüssel und keine offene Einladung es verwendet. Widerrufene und abgelaufene Schlüssel mit diesem Profil werden ebenfalls gelöscht.',
  deleteProfile: 'Profil löschen',
  deleted: '{} gelöscht.',
  usedByMembers: 'Mitglieder verwenden dieses Profil. Ändern Sie zuerst deren Profil.',
  usedByKeys: 'API-Schlüssel verwenden dieses Profil. Ändern Sie zuerst deren Profil.',
  usedByInvitations: 'Einladungen verwenden dieses Profil. Ändern Sie zuerst deren Profil.',
  usedBySubscriptions: 'Ereignisabonnements verwenden dieses Profil. Ändern Sie zuerst deren Profil.',
} as const satisfies TranslationOf<typeof en>;
