// booking-forms:
// May import

export { bookingFormsModule, bookingFormsPath } from './booking-forms.ts';
