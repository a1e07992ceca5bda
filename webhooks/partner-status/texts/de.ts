import type { TranslationOf } from '../../../plugins/admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the page about partner endpoints. */
export default {
  partners: 'Partner',
  showPartners: 'Partner anzeigen',
  invalidSettings:
    'Die letzte Änderung an config.yaml ist ungültig, daher gelten weiterhin die vorherigen Einstellungen: {problem}',
  misconfigured: '{name} ist falsch konfiguriert: {problem}.',
  // Endpoints
  endpoints: 'Endpunkte',
  endpointsIntro: 'Um einen Endpunkt zu aktivieren, setzen Sie sein Geheimnis in config.yaml.',
  endpoint: 'Endpunkt',
  path: 'Pfad',
  state: 'Status',
  secrets: 'Geheimnisse, zuletzt verwendet',
  noEndpoints: 'Partner können Leads und Zahlungen senden und Nachrichten anfordern.',
  on: 'An',
  off: 'Aus (501)',
  misconfiguredState: 'Falsch konfiguriert',
  never: 'nie',
  noSecrets: 'keine',
  missingOrganization: 'die Organisation „{slug}“ existiert nicht',
  noOrganization: 'es existiert keine Organisation',
  noSender: 'messaging enthält keinen Absender für „{slug}“',
  noIntegration: '„{slug}“ hat keine aktivierte Integration mit {sender}',
  isBlank: '{setting} ist leer',
  // Payments
  payments: 'Zahlungen',
  unmatchedPayments: 'Zahlungen ohne Lead ({number})',
  paymentsIntro:
    'Diese Zahlungen wurden akzeptiert, aber kein Lead hat die E-Mail-Adresse, die Telefonnummer oder die ID.',
  event: 'Ereignis',
  customer: 'Kunde',
  received: 'Empfangen',
  payload: 'Inhalt',
  showPayload: 'Vollständigen Inhalt anzeigen',
  showPayloadOf: 'Vollständigen Inhalt von {event} anzeigen',
  missingPayment: 'Diese Zahlung existiert in dieser Organisation nicht oder wurde einem Lead zugeordnet.',
  noPayments: 'Alle gemeldeten Zahlungen gehören zu einem Lead.',
} as const satisfies TranslationOf<typeof en>;
