import type { Needs } from '../engine/definition/index.ts';
import { leadAdsNeeds } from './channels/meta-lead-ads.ts';
import { inboundLeadsNeeds } from './inbound-leads.ts';
import { paymentNeeds } from './payments.ts';

/** Fields of resources that endpoints and channels write or look for, so that nobody removes them unawares. */
export const partnerNeeds: readonly Needs[] = [inboundLeadsNeeds, ...paymentNeeds, leadAdsNeeds];
