// Booking forms: WhatsApp messages that booking forms ask for.
// May import engine, plugins, endpoint, sender.

export { bookingFormsModule, bookingFormsPath } from './booking-forms.ts';
