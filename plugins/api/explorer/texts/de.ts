import type { TranslationOf } from '../../../admin-ui/shell/index.ts';
import type en from './en.ts';

/** German texts of the API explorer. */
export default {
  // Frame
  product: 'CRM API',
  operations: 'Operationen',
  records: 'Datensätze',
  otherOperations: 'Weitere Operationen',
  document: 'OpenAPI-Dokument',
  adminUi: 'Admin-Oberfläche',
  logIn: 'Anmelden',
  logInToSend: 'Anmelden, um Anfragen zu senden',
  sentAs: 'Anfragen werden gesendet als <strong>{user}</strong>',
  sentAsIn: 'Anfragen werden gesendet als <strong>{user}</strong> in',
  organization: 'Organisation',
  useKey: 'API-Schlüssel verwenden',
  keyInUse: 'API-Schlüssel wird verwendet',
  key: 'API-Schlüssel',
  keyInsteadOfSession: 'Anfragen werden mit diesem Schlüssel statt mit Ihrer Sitzung gesendet.',
  keyForgotten: 'Der Schlüssel wird vergessen, wenn Sie diese Seite verlassen.',
  // Start
  firstRequest: 'Für eine erste Anfrage öffnen Sie diese Seite und wählen <strong>Anfrage senden</strong>:',
  forPrograms: 'Für Programme und Codegeneratoren:',
  conventions: 'Konventionen',
  // Error codes
  errorCodes: 'Fehlercodes',
  errorCodesIntro:
    'Jeder Fehler hat einen dieser Codes in <code>code</code>. Neue Codes können hinzukommen. Behandeln Sie einen unbekannten Code deshalb nach seinem HTTP-Status. Anfragen mit <code>Accept: application/problem+json</code> erhalten Fehler als „Problem Details“ (RFC 9457), deren <code>type</code> auf diese Seite verweist.',
  // Operations
  needsScript: 'Zum Senden von Anfragen ist JavaScript erforderlich.',
  transitions: 'Übergänge von <code>{field}</code>',
  diagram: 'Diagramm der Übergänge von {field}, das die Liste beschreibt',
  diagramLegend:
    'Ein Punkt kennzeichnet die Werte neuer Datensätze, ein doppelter Rahmen kennzeichnet endgültige Werte.',
  isDeprecated: 'Veraltet',
  isSent: 'An Ihre URL gesendet',
  header: 'Header',
  required: 'erforderlich',
  readOnly: 'schreibgeschützt',
  deprecated: 'veraltet',
  notSent: 'Nicht gesendet',
  valuePerLine: 'Ein Wert pro Zeile',
  secret: 'Geheimnis',
  optionalParameters: 'Optionale Parameter',
  contentType: 'Inhaltstyp',
  body: 'Inhalt',
  responseFormat: 'Antwortformat',
  send: 'Anfrage senden',
  responseTo: 'Antwort: {operation}',
  bodyFields: 'Felder des Inhalts',
  headers: 'Header',
  responses: 'Antworten',
  example: 'Beispiel',
  responseFields: 'Felder der Antwort',
  errors: 'Fehler',
  // Responses
  response: 'Antwort',
  curl: 'Anfrage als curl-Befehl',
  loggedOut: 'Sie sind nicht angemeldet. Melden Sie sich an, oder verwenden Sie einen API-Schlüssel.',
  cut: 'Der Rest der Antwort wird nicht angezeigt.',
  failed: 'Fehlgeschlagen',
  noResponse: 'Der Server hat nicht geantwortet.',
} as const satisfies TranslationOf<typeof en>;
