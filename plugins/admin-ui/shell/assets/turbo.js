// Follows links and submits the forms with `data-turbo="true"` by replacing the page instead of loading it.
import { config } from './turbo.es2017-esm.js';

config.forms.mode = 'optin';
