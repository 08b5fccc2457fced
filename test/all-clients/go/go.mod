module sluice/clients

go 1.24
