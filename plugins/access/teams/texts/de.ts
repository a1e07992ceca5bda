import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the pages for teams. */
export default {
  teams: 'Teams',
  membersOfTeams: 'Mitglieder von Teams',
  // Teams
  teamRows: 'Teams',
  name: 'Name',
  members: 'Mitglieder',
  noTeams:
    'Mitglieder eines Teams sehen gegenseitig ihre Datensätze, wenn ihr Profil auf einen Bereich mit my_team beschränkt ist.',
  createTeam: 'Team anlegen',
  createATeam: 'Team anlegen',
  nameHelp: 'Ein neues Team hat keine Mitglieder. Sie fügen sie im nächsten Schritt hinzu.',
  teamCreated: '{} angelegt.',
  rename: 'Umbenennen',
  renameName: '{name} umbenennen',
  renameHelp: 'Die Mitglieder bleiben unverändert.',
  renameTeam: 'Team umbenennen',
  teamRenamed: '{} umbenannt.',
  delete: 'Löschen',
  deleteName: '{name} löschen',
  deleteQuestion: '{name} löschen?',
  deleteConsequence:
    'Die Mitglieder des Teams verlieren sofort den Zugriff auf Datensätze, die sie nur durch dieses Team sehen. Sie bleiben Mitglieder von {organization}, und es werden keine Datensätze gelöscht.',
  deleteTeam: 'Team löschen',
  teamDeleted: '{} gelöscht.',
  missing: 'Dieses Team existiert nicht.',
  nameTaken: 'Ein Team mit dem Namen „{name}“ existiert bereits.',
  // Members
  memberRows: 'Mitglieder von Teams',
  member: 'Mitglied',
  team: 'Team',
  noMembers: 'Kein Team hat Mitglieder.',
  deletedTeam: 'gelöschtes Team',
  addMember: 'Mitglied hinzufügen',
  addMemberTo: 'Mitglied zu {team} hinzufügen',
  addToTeam: 'Mitglied zu einem Team hinzufügen',
  chooseATeam: 'Team auswählen',
  chooseAMember: 'Mitglied auswählen',
  chooseTeam: 'Wählen Sie ein Team aus.',
  chooseMember: 'Wählen Sie ein Mitglied aus.',
  memberAdded: '{} zum Team hinzugefügt.',
  remove: 'Entfernen',
  removeName: '{name} entfernen',
  removeQuestion: '{name} aus {team} entfernen?',
  removeConsequence:
    'Dieses Mitglied verliert sofort den Zugriff auf Datensätze, die es nur durch dieses Team sieht, bleibt aber Mitglied von {organization}.',
  removeMember: 'Aus dem Team entfernen',
  memberRemoved: '{} aus dem Team entfernt.',
  missingMember: 'Diese Person ist kein Mitglied des Teams.',
  notInOrganization: 'Diese Person ist kein Mitglied dieser Organisation.',
  alreadyInTeam: 'Diese Person ist bereits Mitglied des Teams.',
} as const satisfies TranslationOf<typeof en>;
