// Booking forms: WhatsApp messages sent on behalf of booking forms.
// May import engine, plugins, endpoint, sender.

export { bookingFormsModule, bookingFormsPath } from './booking-forms.ts';
