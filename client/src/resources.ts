// Written by `crm client`: the resources of an instance. Run it again when they change.
import * as crm from './client.ts';
import * as events from './events.ts';
import type * as http from './http.ts';

/** Companies and other organizations you do business with. */
export interface Account {
  /** ID of the record, unique within the organization. */
  readonly id: bigint;
  /** The organization that the record belongs to. */
  readonly organization_id: bigint;
  /** The user who owns the record, or null if it was created with an API key that has no user. */
  readonly owner_id: bigint | null;
  /** The user who created the record. */
  readonly created_by_id: bigint | null;
  /** The user who last updated the record. */
  readonly last_modified_by_id: bigint | null;
  /** When the record was created, in UTC. */
  readonly created_at: string;
  /** When the record was last updated, in UTC. */
  readonly updated_at: string;
  /** Name of the company. */
  readonly name: string;
  /** URL of the company's website. */
  readonly website: string;
  /** Main phone number. */
  readonly phone: string;
  /** Industry, as free text. */
  readonly industry: string;
  /** Annual revenue with its currency, as text. */
  readonly annual_revenue: string;
  /** Number of employees, as text, so that it can be a range. */
  readonly employees: string;
  /** Street address. */
  readonly address: string;
  /** City. */
  readonly city: string;
  /** State or province. */
  readonly state: string;
  /** Postal code. */
  readonly postal_code: string;
  /** Country. */
  readonly country: string;
  /** Notes. */
  readonly description: string;
}

/** The writable fields of an account. Unknown keys are ignored. Null counts as absent. An absent field is set to its default: `""`, 0 or null unless its description says otherwise. */
export interface AccountInput {
  /** Name of the company. */
  readonly name?: string | null;
  /** URL of the company's website. */
  readonly website?: string | null;
  /** Main phone number. */
  readonly phone?: string | null;
  /** Industry, as free text. */
  readonly industry?: string | null;
  /** Annual revenue with its currency, as text. */
  readonly annual_revenue?: string | null;
  /** Number of employees, as text, so that it can be a range. */
  readonly employees?: string | null;
  /** Street address. */
  readonly address?: string | null;
  /** City. */
  readonly city?: string | null;
  /** State or province. */
  readonly state?: string | null;
  /** Postal code. */
  readonly postal_code?: string | null;
  /** Country. */
  readonly country?: string | null;
  /** Notes. */
  readonly description?: string | null;
}

/** The fields of an account to change. Unknown keys are ignored. Null resets a field to its default. */
export interface AccountPatch {
  /** Name of the company. */
  readonly name?: string | null;
  /** URL of the company's website. */
  readonly website?: string | null;
  /** Main phone number. */
  readonly phone?: string | null;
  /** Industry, as free text. */
  readonly industry?: string | null;
  /** Annual revenue with its currency, as text. */
  readonly annual_revenue?: string | null;
  /** Number of employees, as text, so that it can be a range. */
  readonly employees?: string | null;
  /** Street address. */
  readonly address?: string | null;
  /** City. */
  readonly city?: string | null;
  /** State or province. */
  readonly state?: string | null;
  /** Postal code. */
  readonly postal_code?: string | null;
  /** Country. */
  readonly country?: string | null;
  /** Notes. */
  readonly description?: string | null;
}

/** What accounts can be filtered by. All conditions must hold. */
export interface AccountFilters {
  readonly name?: crm.Values<string> | {
    readonly eq?: crm.Values<string>;
    readonly in?: crm.Values<string>;
    readonly starts_with?: string;
    readonly contains?: string;
  };
  readonly website?: crm.Values<string> | {
    readonly eq?: crm.Values<string>;
    readonly in?: crm.Values<string>;
  };
  readonly created_at?: {
    readonly gt?: string;
    readonly gte?: string;
    readonly lt?: string;
    readonly lte?: string;
  };
  readonly updated_at?: {
    readonly gt?: string;
    readonly gte?: string;
    readonly lt?: string;
    readonly lte?: string;
  };
}

/** The types of accounts. */
export interface AccountTypes {
  readonly record: Account;
  readonly input: AccountInput;
  readonly patch: AccountPatch;
  readonly filters: AccountFilters;
  readonly search: string;
  readonly sort: 'id' | 'organization_id' | 'owner_id' | 'created_by_id' | 'last_modified_by_id' | 'created_at' | 'updated_at' | 'name' | 'website' | 'phone' | 'industry' | 'annual_revenue' | 'employees' | 'address' | 'city' | 'state' | 'postal_code' | 'country' | 'description';
  readonly expanded: { readonly [reference in never]: never };
  readonly match: never;
}

/** Customers' questions and complaints. */
export interface Case {
  /** ID of the record, unique within the organization. */
  readonly id: bigint;
  /** The organization that the record belongs to. */
  readonly organization_id: bigint;
  /** The user who owns the record, or null if it was created with an API key that has no user. */
  readonly owner_id: bigint | null;
  /** When the record was created, in UTC. */
  readonly created_at: string;
  /** When the record was last updated, in UTC. */
  readonly updated_at: string;
  /** Subject of the case. */
  readonly subject: string;
  /** Progress of the case. One of `New`, `Working`, `Escalated`, `Closed`, `On Hold`. Any other string is stored too, but filters and reports know only these. */
  readonly status: 'New' | 'Working' | 'Escalated' | 'Closed' | 'On Hold' | (string & {});
  /** Urgency of the case. One of `High`, `Medium`, `Low`. Any other string is stored too, but filters and reports know only these. */
  readonly priority: 'High' | 'Medium' | 'Low' | (string & {});
  /** The account that the case concerns. */
  readonly account_id: bigint | null;
  /** The contact who opened the case. */
  readonly contact_id: bigint | null;
  /** ID of a queue in your own system; not checked. */
  readonly queue_id: bigint | null;
  /** Details of the case. */
  readonly description: string;
  /** When a response is due, in UTC. */
  readonly sla_due_date: string | null;
  /** Name of the account. */
  readonly account_name: string;
  /** First and last name of the contact. */
  readonly contact_name: string;
}

/** The writable fields of a case. Unknown keys are ignored. Null counts as absent. An absent field is set to its default: `""`, 0 or null unless its description says otherwise. */
export interface CaseInput {
  /** Subject of the case. */
  readonly subject?: string | null;
  /** Progress of the case. One of `New`, `Working`, `Escalated`, `Closed`, `On Hold`. Any other string is stored too, but filters and reports know only these. Default: `New`. */
  readonly status?: 'New' | 'Working' | 'Escalated' | 'Closed' | 'On Hold' | (string & {}) | null;
  /** Urgency of the case. One of `High`, `Medium`, `Low`. Any other string is stored too, but filters and reports know only these. Default: `Medium`. */
  readonly priority?: 'High' | 'Medium' | 'Low' | (string & {}) | null;
  /** The account that the case concerns. */
  readonly account_id?: number | bigint | null;
  /** The contact who opened the case. */
  readonly contact_id?: number | bigint | null;
  /** ID of a queue in your own system; not checked. */
  readonly queue_id?: number | bigint | null;
  /** Details of the case. */
  readonly description?: string | null;
}

/** The fields of a case to change. Unknown keys are ignored. Null resets a field to its default. */
export interface CasePatch {
  /** Subject of the case. */
  readonly subject?: string | null;
  /** Progress of the case. One of `New`, `Working`, `Escalated`, `Closed`, `On Hold`. Any other string is stored too, but filters and reports know only these. */
  readonly status?: 'New' | 'Working' | 'Escalated' | 'Closed' | 'On Hold' | (string & {}) | null;
  /** Urgency of the case. One of `High`, `Medium`, `Low`. Any other string is stored too, but filters and reports know only these. */
  readonly priority?: 'High' | 'Medium' | 'Low' | (string & {}) | null;
  /** The account that the case concerns. */
  readonly account_id?: number | bigint | null;
  /** The contact who opened the case. */
  readonly contact_id?: number | bigint | null;
  /** ID of a queue in your own system; not checked. */
  readonly queue_id?: number | bigint | null;
  /** Details of the case. */
  readonly description?: string | null;
}

/** What cases can be filtered by. All conditions must hold. */
export interface CaseFilters {
  readonly status?: crm.Values<Case['status']>;
}

/** The types of cases. */
export interface CaseTypes {
  readonly record: Case;
  readonly input: CaseInput;
  readonly patch: CasePatch;
  readonly filters: CaseFilters;
  readonly search: never;
  readonly sort: never;
  readonly expanded: {
    readonly account_id: Account | null;
    readonly contact_id: Contact | null;
  };
  readonly match: never;
}

/** People, with the account they belong to, if any. */
export interface Contact {
  /** ID of the record, unique within the organization. */
  readonly id: bigint;
  /** The organization that the record belongs to. */
  readonly organization_id: bigint;
  /** The user who owns the record, or null if it was created with an API key that has no user. */
  readonly owner_id: bigint | null;
  /** The user who created the record. */
  readonly created_by_id: bigint | null;
  /** The user who last updated the record. */
  readonly last_modified_by_id: bigint | null;
  /** When the record was created, in UTC. */
  readonly created_at: string;
  /** When the record was last updated, in UTC. */
  readonly updated_at: string;
  /** The account the person belongs to. */
  readonly account_id: bigint | null;
  /** First name. */
  readonly first_name: string;
  /** Last name. */
  readonly last_name: string;
  /** Email address, stored as sent. */
  readonly email: string;
  /** Phone number, stored as sent. */
  readonly phone: string;
  /** Job title. */
  readonly title: string;
  /** Department. */
  readonly department: string;
  /** IANA time zone, for example Europe/Berlin. */
  readonly timezone: string;
  /** URL of the LinkedIn profile. */
  readonly linkedin_url: string;
  /** URL of the Facebook profile. */
  readonly facebook_url: string;
  /** Instagram handle. */
  readonly instagram_handle: string;
  /** Notes. */
  readonly description: string;
}

/** The writable fields of a contact. Unknown keys are ignored. Null counts as absent. An absent field is set to its default: `""`, 0 or null unless its description says otherwise. */
export interface ContactInput {
  /** The account the person belongs to. */
  readonly account_id?: number | bigint | null;
  /** First name. */
  readonly first_name?: string | null;
  /** Last name. */
  readonly last_name?: string | null;
  /** Email address, stored as sent. */
  readonly email?: string | null;
  /** Phone number, stored as sent. */
  readonly phone?: string | null;
  /** Job title. */
  readonly title?: string | null;
  /** Department. */
  readonly department?: string | null;
  /** IANA time zone, for example Europe/Berlin. */
  readonly timezone?: string | null;
  /** URL of the LinkedIn profile. */
  readonly linkedin_url?: string | null;
  /** URL of the Facebook profile. */
  readonly facebook_url?: string | null;
  /** Instagram handle. */
  readonly instagram_handle?: string | null;
  /** Notes. */
  readonly description?: string | null;
}

/** The fields of a contact to change. Unknown keys are ignored. Null resets a field to its default. */
export interface ContactPatch {
  /** The account the person belongs to. */
  readonly account_id?: number | bigint | null;
  /** First name. */
  readonly first_name?: string | null;
  /** Last name. */
  readonly last_name?: string | null;
  /** Email address, stored as sent. */
  readonly email?: string | null;
  /** Phone number, stored as sent. */
  readonly phone?: string | null;
  /** Job title. */
  readonly title?: string | null;
  /** Department. */
  readonly department?: string | null;
  /** IANA time zone, for example Europe/Berlin. */
  readonly timezone?: string | null;
  /** URL of the LinkedIn profile. */
  readonly linkedin_url?: string | null;
  /** URL of the Facebook profile. */
  readonly facebook_url?: string | null;
  /** Instagram handle. */
  readonly instagram_handle?: string | null;
  /** Notes. */
  readonly description?: string | null;
}

/** What contacts can be filtered by. All conditions must hold. */
export interface ContactFilters {
  readonly email?: crm.Values<string> | {
    readonly eq?: crm.Values<string>;
    readonly in?: crm.Values<string>;
  };
  readonly account_id?: crm.Values<number | bigint> | {
    readonly eq?: crm.Values<number | bigint>;
    readonly in?: crm.Values<number | bigint>;
    readonly is_null?: boolean;
  };
  readonly created_at?: {
    readonly gt?: string;
    readonly gte?: string;
    readonly lt?: string;
    readonly lte?: string;
  };
  readonly updated_at?: {
    readonly gt?: string;
    readonly gte?: string;
    readonly lt?: string;
    readonly lte?: string;
  };
}

/** The types of contacts. */
export interface ContactTypes {
  readonly record: Contact;
  readonly input: ContactInput;
  readonly patch: ContactPatch;
  readonly filters: ContactFilters;
  readonly search: string;
  readonly sort: 'id' | 'organization_id' | 'owner_id' | 'created_by_id' | 'last_modified_by_id' | 'created_at' | 'updated_at' | 'account_id' | 'first_name' | 'last_name' | 'email' | 'phone' | 'title' | 'department' | 'timezone' | 'linkedin_url' | 'facebook_url' | 'instagram_handle' | 'description';
  readonly expanded: {
    readonly account_id: Account | null;
  };
  readonly match: never;
}

/** People or companies that might become customers. Creating a lead does not convert it. */
export interface Lead {
  /** ID of the record, unique within the organization. */
  readonly id: bigint;
  /** The organization that the record belongs to. */
  readonly organization_id: bigint;
  /** The user who owns the record, or null if it was created with an API key that has no user. */
  readonly owner_id: bigint | null;
  /** The user who created the record. */
  readonly created_by_id: bigint | null;
  /** The user who last updated the record. */
  readonly last_modified_by_id: bigint | null;
  /** When the record was created, in UTC. */
  readonly created_at: string;
  /** When the record was last updated, in UTC. */
  readonly updated_at: string;
  /** First name. */
  readonly first_name: string;
  /** Last name. */
  readonly last_name: string;
  /** Company of the lead. */
  readonly company: string;
  /** Email address, stored as sent. */
  readonly email: string;
  /** Phone number, stored as sent. */
  readonly phone: string;
  /** Progress of the lead. One of `Open - Not Contacted`, `Working - Contacted`, `Closed - Converted`, `Closed - Not Converted`. Any other string is stored too, but filters and reports know only these. */
  readonly status: 'Open - Not Contacted' | 'Working - Contacted' | 'Closed - Converted' | 'Closed - Not Converted' | (string & {});
  /** How promising the lead is. One of `Hot`, `Warm`, `Cold`. Any other string is stored too, but filters and reports know only these. */
  readonly rating: 'Hot' | 'Warm' | 'Cold' | (string & {});
  /** Where the lead came from. Suggested: `Website`, `WhatsApp`, `Phone`, `Email`, `LinkedIn`, `Instagram`, `Facebook`, `Referral`, `Meta Lead Ads`, `Other`. */
  readonly source: 'Website' | 'WhatsApp' | 'Phone' | 'Email' | 'LinkedIn' | 'Instagram' | 'Facebook' | 'Referral' | 'Meta Lead Ads' | 'Other' | (string & {});
  /** Score by your own rules. */
  readonly lead_score: bigint;
  /** IANA time zone, for example Europe/Berlin. */
  readonly timezone: string;
  /** URL of the LinkedIn profile. */
  readonly linkedin_url: string;
  /** URL of the Facebook profile. */
  readonly facebook_url: string;
  /** Instagram handle. */
  readonly instagram_handle: string;
  /** Notes. */
  readonly description: string;
  /** Meta's ID of the ad that generated the lead. */
  readonly meta_ad_id: string;
  /** Meta's ID of the lead form. */
  readonly meta_form_id: string;
  /** Meta's ID of the campaign. */
  readonly meta_campaign_id: string;
  /** Meta's ID of the lead. */
  readonly meta_leadgen_id: string;
}

/** The writable fields of a lead. Unknown keys are ignored. Null counts as absent. An absent field is set to its default: `""`, 0 or null unless its description says otherwise. */
export interface LeadInput {
  /** First name. */
  readonly first_name?: string | null;
  /** Last name. */
  readonly last_name?: string | null;
  /** Company of the lead. */
  readonly company?: string | null;
  /** Email address, stored as sent. */
  readonly email?: string | null;
  /** Phone number, stored as sent. */
  readonly phone?: string | null;
  /** Progress of the lead. One of `Open - Not Contacted`, `Working - Contacted`, `Closed - Converted`, `Closed - Not Converted`. Any other string is stored too, but filters and reports know only these. Default: `Open - Not Contacted`. */
  readonly status?: 'Open - Not Contacted' | 'Working - Contacted' | 'Closed - Converted' | 'Closed - Not Converted' | (string & {}) | null;
  /** How promising the lead is. One of `Hot`, `Warm`, `Cold`. Any other string is stored too, but filters and reports know only these. */
  readonly rating?: 'Hot' | 'Warm' | 'Cold' | (string & {}) | null;
  /** Where the lead came from. Suggested: `Website`, `WhatsApp`, `Phone`, `Email`, `LinkedIn`, `Instagram`, `Facebook`, `Referral`, `Meta Lead Ads`, `Other`. */
  readonly source?: 'Website' | 'WhatsApp' | 'Phone' | 'Email' | 'LinkedIn' | 'Instagram' | 'Facebook' | 'Referral' | 'Meta Lead Ads' | 'Other' | (string & {}) | null;
  /** Score by your own rules. */
  readonly lead_score?: number | bigint | null;
  /** IANA time zone, for example Europe/Berlin. */
  readonly timezone?: string | null;
  /** URL of the LinkedIn profile. */
  readonly linkedin_url?: string | null;
  /** URL of the Facebook profile. */
  readonly facebook_url?: string | null;
  /** Instagram handle. */
  readonly instagram_handle?: string | null;
  /** Notes. */
  readonly description?: string | null;
}

/** The fields of a lead to change. Unknown keys are ignored. Null resets a field to its default. */
export interface LeadPatch {
  /** First name. */
  readonly first_name?: string | null;
  /** Last name. */
  readonly last_name?: string | null;
  /** Company of the lead. */
  readonly company?: string | null;
  /** Email address, stored as sent. */
  readonly email?: string | null;
  /** Phone number, stored as sent. */
  readonly phone?: string | null;
  /** Progress of the lead. One of `Open - Not Contacted`, `Working - Contacted`, `Closed - Converted`, `Closed - Not Converted`. Any other string is stored too, but filters and reports know only these. */
  readonly status?: 'Open - Not Contacted' | 'Working - Contacted' | 'Closed - Converted' | 'Closed - Not Converted' | (string & {}) | null;
  /** How promising the lead is. One of `Hot`, `Warm`, `Cold`. Any other string is stored too, but filters and reports know only these. */
  readonly rating?: 'Hot' | 'Warm' | 'Cold' | (string & {}) | null;
  /** Where the lead came from. Suggested: `Website`, `WhatsApp`, `Phone`, `Email`, `LinkedIn`, `Instagram`, `Facebook`, `Referral`, `Meta Lead Ads`, `Other`. */
  readonly source?: 'Website' | 'WhatsApp' | 'Phone' | 'Email' | 'LinkedIn' | 'Instagram' | 'Facebook' | 'Referral' | 'Meta Lead Ads' | 'Other' | (string & {}) | null;
  /** Score by your own rules. */
  readonly lead_score?: number | bigint | null;
  /** IANA time zone, for example Europe/Berlin. */
  readonly timezone?: string | null;
  /** URL of the LinkedIn profile. */
  readonly linkedin_url?: string | null;
  /** URL of the Facebook profile. */
  readonly facebook_url?: string | null;
  /** Instagram handle. */
  readonly instagram_handle?: string | null;
  /** Notes. */
  readonly description?: string | null;
}

/** What leads can be filtered by. All conditions must hold. */
export interface LeadFilters {
  readonly status?: crm.Values<Lead['status']> | {
    readonly eq?: crm.Values<Lead['status']>;
    readonly ne?: crm.Values<Lead['status']>;
    readonly in?: crm.Values<Lead['status']>;
  };
  readonly rating?: crm.Values<Lead['rating']> | {
    readonly eq?: crm.Values<Lead['rating']>;
    readonly ne?: crm.Values<Lead['rating']>;
    readonly in?: crm.Values<Lead['rating']>;
  };
  readonly source?: crm.Values<Lead['source']> | {
    readonly eq?: crm.Values<Lead['source']>;
    readonly ne?: crm.Values<Lead['source']>;
    readonly in?: crm.Values<Lead['source']>;
  };
  readonly email?: crm.Values<string> | {
    readonly eq?: crm.Values<string>;
    readonly in?: crm.Values<string>;
  };
  readonly phone?: crm.Values<string> | {
    readonly eq?: crm.Values<string>;
    readonly in?: crm.Values<string>;
  };
  readonly owner_id?: crm.Values<number | bigint> | {
    readonly eq?: crm.Values<number | bigint>;
    readonly in?: crm.Values<number | bigint>;
    readonly is_null?: boolean;
  };
  readonly created_at?: {
    readonly gt?: string;
    readonly gte?: string;
    readonly lt?: string;
    readonly lte?: string;
  };
  readonly updated_at?: {
    readonly gt?: string;
    readonly gte?: string;
    readonly lt?: string;
    readonly lte?: string;
  };
}

/** The types of leads. */
export interface LeadTypes {
  readonly record: Lead;
  readonly input: LeadInput;
  readonly patch: LeadPatch;
  readonly filters: LeadFilters;
  readonly search: string;
  readonly sort: 'id' | 'organization_id' | 'owner_id' | 'created_by_id' | 'last_modified_by_id' | 'created_at' | 'updated_at' | 'first_name' | 'last_name' | 'company' | 'email' | 'phone' | 'status' | 'rating' | 'source' | 'lead_score' | 'timezone' | 'linkedin_url' | 'facebook_url' | 'instagram_handle' | 'description' | 'meta_ad_id' | 'meta_form_id' | 'meta_campaign_id' | 'meta_leadgen_id';
  readonly expanded: { readonly [reference in never]: never };
  readonly match: never;
}

/** Sales in progress, with the prospective customer's account, if any. */
export interface Opportunity {
  /** ID of the record, unique within the organization. */
  readonly id: bigint;
  /** The organization that the record belongs to. */
  readonly organization_id: bigint;
  /** The user who owns the record, or null if it was created with an API key that has no user. */
  readonly owner_id: bigint | null;
  /** The user who created the record. */
  readonly created_by_id: bigint | null;
  /** The user who last updated the record. */
  readonly last_modified_by_id: bigint | null;
  /** When the record was created, in UTC. */
  readonly created_at: string;
  /** When the record was last updated, in UTC. */
  readonly updated_at: string;
  /** The prospective customer. */
  readonly account_id: bigint | null;
  /** Name of the opportunity. */
  readonly name: string;
  /** Expected value, an exact decimal. */
  readonly amount: string;
  /** Stage of the sale. One of `Prospecting`, `Qualification`, `Needs Analysis`, `Value Proposition`, `Negotiation`, `Closed Won`, `Closed Lost`. Any other string is stored too, but filters and reports know only these. */
  readonly stage: 'Prospecting' | 'Qualification' | 'Needs Analysis' | 'Value Proposition' | 'Negotiation' | 'Closed Won' | 'Closed Lost' | (string & {});
  /** Expected or actual closing time, with the UTC offset as sent. */
  readonly close_date: string | null;
  /** Probability of winning, usually in percent. */
  readonly probability: bigint;
  /** Notes. */
  readonly description: string;
}

/** The writable fields of an opportunity. Unknown keys are ignored. Null counts as absent. An absent field is set to its default: `""`, 0 or null unless its description says otherwise. */
export interface OpportunityInput {
  /** The prospective customer. */
  readonly account_id?: number | bigint | null;
  /** Name of the opportunity. */
  readonly name?: string | null;
  /** Expected value, an exact decimal. */
  readonly amount?: number | string | null;
  /** Stage of the sale. One of `Prospecting`, `Qualification`, `Needs Analysis`, `Value Proposition`, `Negotiation`, `Closed Won`, `Closed Lost`. Any other string is stored too, but filters and reports know only these. Default: `Prospecting`. */
  readonly stage?: 'Prospecting' | 'Qualification' | 'Needs Analysis' | 'Value Proposition' | 'Negotiation' | 'Closed Won' | 'Closed Lost' | (string & {}) | null;
  /** Expected or actual closing time, with the UTC offset as sent. */
  readonly close_date?: string | null;
  /** Probability of winning, usually in percent. */
  readonly probability?: number | bigint | null;
  /** Notes. */
  readonly description?: string | null;
}

/** The fields of an opportunity to change. Unknown keys are ignored. Null resets a field to its default. */
export interface OpportunityPatch {
  /** The prospective customer. */
  readonly account_id?: number | bigint | null;
  /** Name of the opportunity. */
  readonly name?: string | null;
  /** Expected value, an exact decimal. */
  readonly amount?: number | string | null;
  /** Stage of the sale. One of `Prospecting`, `Qualification`, `Needs Analysis`, `Value Proposition`, `Negotiation`, `Closed Won`, `Closed Lost`. Any other string is stored too, but filters and reports know only these. */
  readonly stage?: 'Prospecting' | 'Qualification' | 'Needs Analysis' | 'Value Proposition' | 'Negotiation' | 'Closed Won' | 'Closed Lost' | (string & {}) | null;
  /** Expected or actual closing time, with the UTC offset as sent. */
  readonly close_date?: string | null;
  /** Probability of winning, usually in percent. */
  readonly probability?: number | bigint | null;
  /** Notes. */
  readonly description?: string | null;
}

/** What opportunities can be filtered by. All conditions must hold. */
export interface OpportunityFilters {
  readonly stage?: crm.Values<Opportunity['stage']> | {
    readonly eq?: crm.Values<Opportunity['stage']>;
    readonly ne?: crm.Values<Opportunity['stage']>;
    readonly in?: crm.Values<Opportunity['stage']>;
  };
  readonly account_id?: crm.Values<number | bigint> | {
    readonly eq?: crm.Values<number | bigint>;
    readonly in?: crm.Values<number | bigint>;
    readonly is_null?: boolean;
  };
  readonly amount?: {
    readonly gt?: number | string;
    readonly gte?: number | string;
    readonly lt?: number | string;
    readonly lte?: number | string;
  };
  readonly close_date?: {
    readonly gt?: string;
    readonly gte?: string;
    readonly lt?: string;
    readonly lte?: string;
    readonly is_null?: boolean;
  };
  readonly created_at?: {
    readonly gt?: string;
    readonly gte?: string;
    readonly lt?: string;
    readonly lte?: string;
  };
  readonly updated_at?: {
    readonly gt?: string;
    readonly gte?: string;
    readonly lt?: string;
    readonly lte?: string;
  };
}

/** The types of opportunities. */
export interface OpportunityTypes {
  readonly record: Opportunity;
  readonly input: OpportunityInput;
  readonly patch: OpportunityPatch;
  readonly filters: OpportunityFilters;
  readonly search: never;
  readonly sort: 'id' | 'organization_id' | 'owner_id' | 'created_by_id' | 'last_modified_by_id' | 'created_at' | 'updated_at' | 'account_id' | 'name' | 'amount' | 'stage' | 'close_date' | 'probability' | 'description';
  readonly expanded: {
    readonly account_id: Account | null;
  };
  readonly match: never;
}

/** The types of each resource. */
export interface CrmResources {
  readonly accounts: AccountTypes;
  readonly cases: CaseTypes;
  readonly contacts: ContactTypes;
  readonly leads: LeadTypes;
  readonly opportunities: OpportunityTypes;
}

const resources = {
  accounts: {
    numbers: { id: 'int64', organization_id: 'int64', owner_id: 'int64', created_by_id: 'int64', last_modified_by_id: 'int64' },
    references: {},
  },
  cases: {
    numbers: { id: 'int64', organization_id: 'int64', owner_id: 'int64', account_id: 'int64', contact_id: 'int64', queue_id: 'int64' },
    references: { account_id: 'accounts', contact_id: 'contacts' },
  },
  contacts: {
    numbers: { id: 'int64', organization_id: 'int64', owner_id: 'int64', created_by_id: 'int64', last_modified_by_id: 'int64', account_id: 'int64' },
    references: { account_id: 'accounts' },
  },
  leads: {
    numbers: { id: 'int64', organization_id: 'int64', owner_id: 'int64', created_by_id: 'int64', last_modified_by_id: 'int64', lead_score: 'int64' },
    references: {},
  },
  opportunities: {
    numbers: { id: 'int64', organization_id: 'int64', owner_id: 'int64', created_by_id: 'int64', last_modified_by_id: 'int64', account_id: 'int64', amount: 'decimal', probability: 'int64' },
    references: { account_id: 'accounts' },
  },
} as const;

/** The client of an instance, with each of its resources. */
export type CrmClient = crm.ClientOf<CrmResources>;

/** Makes a client; nothing is sent before it is used. */
export const createClient = (options: http.ClientOptions): CrmClient =>
  crm.clientOf<CrmResources>(resources, options);

/** An event that a subscription sends. */
export type CrmEvent = events.EventOf<CrmResources>;

/** Verifies an event of a subscription and reads it; rejects with InvalidEventError. The body must be as it came. */
export const readEvent: events.EventReader<CrmResources> = (body, headers, secrets) =>
  events.readEventOf<CrmResources>(resources, body, headers, secrets);

/** The codes of errors that this version of the API knows; others may come. */
export type ErrorCode =
  | 'invalid_request'
  | 'invalid_json'
  | 'invalid_csv'
  | 'line_too_long'
  | 'invalid_input'
  | 'invalid_header'
  | 'missing_reference'
  | 'duplicate'
  | 'rejected_by_database'
  | 'items_refused'
  | 'organization_required'
  | 'unauthenticated'
  | 'second_factor_required'
  | 'second_factor_missing'
  | 'forbidden'
  | 'quota_exceeded'
  | 'not_a_member'
  | 'cross_site'
  | 'not_found'
  | 'method_not_allowed'
  | 'request_timeout'
  | 'in_progress'
  | 'cursor_expired'
  | 'precondition_failed'
  | 'body_too_large'
  | 'expectation_failed'
  | 'idempotency_key_reused'
  | 'too_many_attempts'
  | 'rate_limited'
  | 'head_too_large'
  | 'internal'
  | 'database_failed'
  | 'not_configured'
  | 'not_recorded'
  | 'send_failed'
  | 'overloaded'
  | 'too_slow'
  | 'shutting_down'
  | 'read_only';
